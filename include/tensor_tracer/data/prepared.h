#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/data/indexed_documents.h"
#include "tensor_tracer/data/text_corpus.h"

namespace tt::data {

/// A folder that `python -m tensor_tracer prepare` wrote: docs/data.md, "Prepared data".
struct PreparedFolder {
  std::string tokenizer_hash;  // SHA-256 of tokenizer.json, in hex
  std::int64_t vocab_size = 0;
  std::int64_t documents = 0;
  std::int64_t tokens = 0;
  std::uint8_t counted_role = 0;  // the number of "assistant"

  /// True if the folder has the file prepared.json.
  static bool is_at(const std::string& path);
  /// The paths of prepared.json, data.bin, data.idx and data.roles.bin.
  static std::vector<std::string> paths_in(const std::string& path);
  /// Reads the text of prepared.json. Error: it is not such a file; the error names `path`.
  static base::Result<PreparedFolder> parse(std::string_view text, const std::string& path);
  /// The documents. `files`: those of paths_in(); they outlive the documents. Error: the files
  /// contradict each other.
  base::Result<IndexedDocuments> open(const TextCorpus& files, const std::string& path) const;
};

}  // namespace tt::data

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/data/documents.h"
#include "tensor_tracer/data/text_corpus.h"
#include "tensor_tracer/data/tokenizer.h"

namespace tt::data {

/// How the texts of a JSONL file become tokens.
struct JsonlReader {
  Tokenizer tokenize = bytes_of;
  std::optional<std::int64_t> end = {};  // the token after each document

  /// The documents of JSONL files: on each line an object with "text", or with "prompt" and
  /// "response". Other members are ignored, and so are empty lines. The loss of a prompt does not
  /// count; that of a response and of the end token after it does. `names`: of the files of
  /// `files`. Error: a line is no such object, or its text has no token; the error names file and
  /// line. For "messages" it names the command that prepares them.
  base::Result<std::shared_ptr<const MemoryDocuments>> read(
      const TextCorpus& files, const std::vector<std::string>& names) const;
};

}  // namespace tt::data

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/data/documents.h"
#include "tensor_tracer/data/text_corpus.h"
#include "tensor_tracer/data/tokenizer.h"

namespace tt::data {

/// The texts of a line of a JSONL file. Only the loss of `counted` counts.
struct LineTexts {
  std::string prompt;  // empty: none
  std::string counted;
  std::optional<std::vector<std::int64_t>> counted_ids;  // its tokens, if the line states them
};

/// Reads a line: an object with "text", or with "prompt" and "response". `place`: the line, for
/// errors. `file`: its path. `takes_generated`: beside a "prompt", a "text" is the response, as in
/// the output of `generate`; it may be empty, and its "token_ids" without an end token at the end
/// are its tokens. Error: the line is no such object; for "messages" it
/// names the command that prepares them. Thread: any.
base::Result<LineTexts> read_line(std::string_view line, const std::string& place,
                                  const std::string& file, bool takes_generated = false);

/// How the texts of a JSONL file become tokens.
struct JsonlReader {
  Tokenizer tokenize = bytes_of;
  std::optional<std::int64_t> end = {};  // the token after each document

  /// The documents of JSONL files, one on each line (read_line). Other members are ignored, and so
  /// are empty lines. The loss of a prompt does not count; that of a response and of the end token
  /// after it does. `names`: of the files of `files`. Error: that of read_line(), or a text has no
  /// token; the error names file and line.
  base::Result<std::shared_ptr<const MemoryDocuments>> read(
      const TextCorpus& files, const std::vector<std::string>& names) const;
};

}  // namespace tt::data

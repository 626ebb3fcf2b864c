#pragma once

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "src/cli/run_tokenizer.h"
#include "tensor_tracer/base/result.h"
#include "tensor_tracer/config/generate_config.h"
#include "tensor_tracer/data/prompts.h"
#include "tensor_tracer/generate/generator.h"
#include "tensor_tracer/tokenize/stream_decoder.h"

namespace tt::cli {

/// Where responses go. With --output, to a file as JSONL, which gets its name when all responses
/// are complete. Else to the terminal: one response as text, token by token; several, or with
/// --top-logits, as JSONL. Global rank 0. Thread: one at a time.
class GenerateOutput {
 public:
  /// `tokenizer` outlives the object. Error: the file cannot be written.
  static base::Result<GenerateOutput> open(const config::GenerateConfig& options,
                                           std::size_t num_prompts, const RunTokenizer& tokenizer);

  /// A token of a response that is not complete yet.
  void token(std::int64_t id);
  /// A complete response.
  void response(const data::Prompt& prompt, const generate::Response& response);
  /// Error: a response could not be written.
  base::Status close();

 private:
  explicit GenerateOutput(const RunTokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  const RunTokenizer* tokenizer_;
  std::string path_;
  std::string written_;  // the file that gets the responses
  std::ofstream file_;
  bool is_stream_ = false;                          // one response, to the terminal
  std::optional<tokenize::StreamDecoder> decoder_;  // of the stream; nullopt: ids are bytes
};

}  // namespace tt::cli

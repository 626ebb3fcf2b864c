#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"

namespace tt::data {

/// Limits of one prompt file; each has a test.
struct PromptLimits {
  std::size_t max_prompts = 256;
  std::size_t max_file_bytes = 16 << 20;
};

/// Texts that are followed over a whole run. Immutable.
struct PromptSet {
  std::string name;  // of the file, without folder and extension
  std::vector<std::string> texts;

  /// int64 [prompts, longest]: the bytes of each text, then zeros. Attention is causal, so what
  /// stands behind a text does not change it.
  at::Tensor tokens() const;
};

/// Reads prompts from a file: one on each line, or, for a name that ends in .jsonl, one JSON object
/// with the text under "prompt" or "text", or one JSON string, on each line. Empty lines do not
/// count. Errors name the file and the line: no text, not UTF-8, longer than `seq_length` bytes.
base::Result<PromptSet> read_prompts(const std::string& path, std::int64_t seq_length,
                                     const PromptLimits& limits = {});

}  // namespace tt::data

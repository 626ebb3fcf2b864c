#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"

namespace tt::data {

/// Limits of one prompt file; each limit has a test.
struct PromptLimits {
  std::size_t max_prompts = 256;
  std::size_t max_file_bytes = 16 << 20;
};

/// Texts that are monitored during a whole run. Immutable.
struct PromptSet {
  std::string name;  // of the file, without folder and extension
  std::vector<std::string> texts;

  /// int64 [prompts, longest]: the bytes of each text, then zeros. Attention is causal, so the
  /// zeros after a text do not change its values.
  at::Tensor tokens() const;
  /// int64 [prompts, longest]: the next byte of the text; -1 from the text's last byte on.
  at::Tensor targets() const;
};

/// Reads prompts from a file, one per line. In a .jsonl file each line is a JSON object with the
/// text under "prompt" or "text", or a JSON string. Empty lines are ignored. Errors name the file
/// and the line: no text, not UTF-8, longer than `seq_length` bytes.
base::Result<PromptSet> read_prompts(const std::string& path, std::int64_t seq_length,
                                     const PromptLimits& limits = {});

}  // namespace tt::data

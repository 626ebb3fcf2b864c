#pragma once

#include <vector>

#include "src/cli/run_tokenizer.h"
#include "tensor_tracer/base/result.h"
#include "tensor_tracer/config/generate_config.h"
#include "tensor_tracer/data/prompts.h"

namespace tt::cli {

/// Limits of the file of --prompts; each has a test.
inline constexpr std::size_t kMaxGeneratePrompts = 65'536;
inline constexpr std::size_t kMaxGenerateBytes = std::size_t{64} << 20U;

/// The prompts of --prompt, then those of the file of --prompts. Each line of a file is a text. In
/// a .jsonl file, each line is a JSON object with a text under "prompt", or with token ids under
/// "prompt_token_ids"; such a prompt has no text. Empty lines are ignored. Error: names the file
/// and the line. Global rank 0.
base::Result<std::vector<data::Prompt>> read_generate_prompts(const config::TrainConfig& run,
                                                              const config::GenerateConfig& options,
                                                              const RunTokenizer& tokenizer);

}  // namespace tt::cli

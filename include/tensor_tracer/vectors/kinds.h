#pragma once

#include <array>
#include <cstdint>

namespace tt::vectors {

/// The tokens of a text whose mean hidden state a direction vector is made of, and their names.
struct KindNames {
  const char* option;  // of --kind
  const char* suffix;  // of the files of Persona vectors (arXiv 2507.21509)
  const char* tokens;  // for people
};

/// By this order in all tensors.
enum Kind : std::int64_t { kResponse, kPrompt, kLastPrompt, kNumKinds };
inline constexpr std::array<KindNames, kNumKinds> kKinds = {
    {{"response", "response_avg_diff", "tokens of the response"},
     {"prompt", "prompt_avg_diff", "tokens of the prompt"},
     {"last-prompt", "prompt_last_diff", "last token of the prompt"}}};

}  // namespace tt::vectors

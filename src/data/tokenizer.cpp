#include "tensor_tracer/data/tokenizer.h"

namespace tt::data {

std::vector<std::int64_t> tokenize(std::string_view text) {
  std::vector<std::int64_t> tokens;
  tokens.reserve(text.size());
  for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
  return tokens;
}

}  // namespace tt::data

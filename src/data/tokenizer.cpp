#include "tensor_tracer/data/tokenizer.h"

namespace tt::data {

base::Result<std::vector<std::int64_t>> bytes_of(const std::string& text) {
  std::vector<std::int64_t> tokens;
  tokens.reserve(text.size());
  for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
  return tokens;
}

}  // namespace tt::data

#include "src/intervene/token_texts.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace tt::intervene {
namespace {

using Ids = std::span<const std::int64_t>;

// The number of first ids that spell the text; 0: they do not.
std::size_t num_spelling(std::string_view text, Ids ids, const TokenTexts& texts) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<std::size_t>(ids[i]);  // a negative one is beyond the texts
    if (id >= texts.size() || texts[id].empty() || !text.starts_with(texts[id])) return 0;
    text.remove_prefix(texts[id].size());
    if (text.empty()) return i + 1;
  }
  return 0;
}

}  // namespace

std::shared_ptr<const TokenTexts> texts_of_bytes() {
  static const auto bytes = [] {
    constexpr std::size_t kBytes = 256;
    TokenTexts texts(kBytes);
    for (std::size_t i = 0; i < kBytes; ++i) texts[i] = std::string(1, static_cast<char>(i));
    return std::make_shared<const TokenTexts>(std::move(texts));
  }();
  return bytes;
}

at::Tensor spelled(const at::Tensor& tokens, const std::string& text, const TokenTexts& texts) {
  const at::Tensor ids = tokens.cpu().contiguous();
  at::Tensor mask = at::zeros(ids.sizes(), ids.options().dtype(at::kBool));
  const auto length = static_cast<std::size_t>(ids.size(1));
  for (std::int64_t row = 0; row < ids.size(0); ++row) {
    const Ids line(ids.const_data_ptr<std::int64_t>() + row * ids.size(1), length);
    bool* out = mask.mutable_data_ptr<bool>() + row * ids.size(1);
    for (std::size_t i = 0; i < length; ++i)
      std::fill_n(out + i, num_spelling(text, line.subspan(i), texts), true);
  }
  return mask;
}

}  // namespace tt::intervene

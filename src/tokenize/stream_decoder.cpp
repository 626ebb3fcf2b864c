#include "tensor_tracer/tokenize/stream_decoder.h"

#include "src/tokenize/unicode.h"

namespace tt::tokenize {

StreamDecoder::StreamDecoder(Tokenizer tokenizer, bool skip_special_tokens)
    : tokenizer_(std::move(tokenizer)), skip_special_tokens_(skip_special_tokens) {}

// The text of a token can depend on its neighbours, so the tokens of the text before are decoded
// again.
std::string StreamDecoder::add(std::int64_t id) {
  ids_.push_back(id);
  const std::string decoded = tokenizer_.decode(ids_, skip_special_tokens_);
  if (decoded.size() <= told_.size() || decoded.ends_with(kReplacementCharacter)) return {};
  return take(decoded);
}

std::string StreamDecoder::finish() {
  const std::string decoded = tokenizer_.decode(ids_, skip_special_tokens_);
  std::string rest = decoded.substr(std::min(told_.size(), decoded.size()));
  ids_.clear();
  old_ids_ = 0;
  told_.clear();
  return rest;
}

std::string StreamDecoder::take(const std::string& decoded) {
  std::string text = decoded.substr(told_.size());
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(old_ids_));
  old_ids_ = ids_.size();
  told_ = tokenizer_.decode(ids_, skip_special_tokens_);
  return text;
}

}  // namespace tt::tokenize

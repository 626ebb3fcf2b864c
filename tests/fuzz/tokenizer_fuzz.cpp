// A tokenizer.json → a tokenizer whose ids have tokens, or an error that can be shown.
#include <nlohmann/json.hpp>

#include "tensor_tracer/tokenize/stream_decoder.h"
#include "tensor_tracer/tokenize/tokenizer.h"
#include "tests/fuzz/error_check.h"

namespace {

using tt::fuzz::check_error;
using tt::fuzz::require;
using tt::tokenize::Tokenizer;

constexpr const char* kTexts[] = {"", " a  b\n",
                                  "It's 12 \xC3\xA9\xE2\x96\x81<s>\xF0\x9F\x91\x8D</s>", "\xFF"};

void check_text(const Tokenizer& tokenizer, std::string_view text) {
  const auto ids = tokenizer.encode(text, true);
  if (!ids) return check_error(ids.error());
  for (const std::int64_t id : ids.value())
    require(id >= 0 && id < tokenizer.vocab_size(), "an id is in the vocabulary");
  tt::tokenize::StreamDecoder stream(tokenizer, true);
  for (const std::int64_t id : ids.value()) static_cast<void>(stream.add(id));
  static_cast<void>(stream.finish());
  static_cast<void>(
      nlohmann::json(tokenizer.decode(ids.value())).dump());  // throws unless it is UTF-8
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto tokenizer = Tokenizer::read(tt::fuzz::as_text(data, size), "tokenizer.json");
  if (!tokenizer)
    check_error(tokenizer.error());
  else
    for (const char* text : kTexts) check_text(tokenizer.value(), text);
  return 0;
}

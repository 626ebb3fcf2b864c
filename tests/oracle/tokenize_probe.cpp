// Runs a tokenizer for tests/oracle/test_tokenize.py and scripts/bench/tokenizer.py.
//
//     tokenize_probe tokenizer.json
//
// Each line of standard input is a JSON object and gives one line of JSON. Lines:
// {"encode": text, "special": bool} -> ids; {"decode": ids, "skip_special": bool} -> text;
// {"stream": ids} -> the texts in their order; {"time": texts} -> CPU seconds and number of ids.
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tensor_tracer/tokenize/stream_decoder.h"
#include "tensor_tracer/tokenize/tokenizer.h"

namespace {

using nlohmann::json;
using tt::tokenize::Tokenizer;

json encode(const Tokenizer& tokenizer, const json& line) {
  const auto ids =
      tokenizer.encode(line["encode"].get<std::string>(), line.value("special", false));
  if (!ids) return {{"error", to_string(ids.error())}};
  return ids.value();
}

json stream(const Tokenizer& tokenizer, const json& ids) {
  tt::tokenize::StreamDecoder decoder(tokenizer);
  json texts = json::array();
  for (const json& id : ids) texts.push_back(decoder.add(id.get<std::int64_t>()));
  texts.push_back(decoder.finish());
  return texts;
}

json time(const Tokenizer& tokenizer, const std::vector<std::string>& texts) {
  std::size_t ids = 0;
  const std::clock_t begin = std::clock();
  for (const std::string& text : texts) ids += tokenizer.encode(text).value().size();
  const auto ticks = static_cast<double>(std::clock() - begin);
  return {{"seconds", ticks / CLOCKS_PER_SEC}, {"ids", ids}};
}

json answer(const Tokenizer& tokenizer, const json& line) {
  if (line.contains("encode")) return encode(tokenizer, line);
  if (line.contains("stream")) return stream(tokenizer, line["stream"]);
  if (line.contains("time")) return time(tokenizer, line["time"].get<std::vector<std::string>>());
  return tokenizer.decode(line["decode"].get<std::vector<std::int64_t>>(),
                          line.value("skip_special", false));
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  std::ifstream file(arguments[1], std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  const auto tokenizer = Tokenizer::read(bytes, arguments[1]);
  if (!tokenizer) {
    std::cout << json{{"error", to_string(tokenizer.error())}} << std::endl;
    return 1;
  }
  std::cout << json{{"vocab_size", tokenizer.value().vocab_size()}} << std::endl;
  for (std::string line; std::getline(std::cin, line);)
    std::cout << answer(tokenizer.value(), json::parse(line)) << std::endl;
}

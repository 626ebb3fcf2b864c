#include "src/tokenize/normalizer.h"

#include "src/tokenize/unicode.h"
#include "tensor_tracer/base/overloaded.h"

namespace tt::tokenize {
namespace {

base::Status check_growth(std::size_t before, std::size_t after) {
  if (after <= kMaxGrowth * std::max<std::size_t>(before, 1024)) return {};
  return base::Error{.code = "invalid_argument",
                     .message = "the tokenizer's replacements make the text more than " +
                                std::to_string(kMaxGrowth) + " times longer"};
}

}  // namespace

Replacement Replacement::read(const JsonField& field) {
  return {Pattern::read(field["pattern"]), field["content"].text()};
}

base::Result<std::string> Replacement::apply(std::string_view text) const {
  std::vector<Range> matches;
  if (const auto found = pattern.find_all(text, matches); !found) return found.error();
  std::string made;
  std::size_t end = 0;
  for (const Range& match : matches) {
    made.append(text.substr(end, match.begin - end)).append(content);
    end = match.end;
    if (const auto status = check_growth(text.size(), made.size()); !status) return status.error();
  }
  return made.append(text.substr(end));
}

Normalizer Normalizer::read(const JsonField& field) {
  Normalizer normalizer;
  for (const JsonField& part : sequence_of(field, "normalizers")) normalizer.add(part);
  return normalizer;
}

void Normalizer::add(const JsonField& part) {
  const std::string type = part["type"].text();
  if (type == "NFC")
    steps_.emplace_back(Nfc{});
  else if (type == "Prepend")
    steps_.emplace_back(Prepend{part["prepend"].text()});
  else if (type == "Replace")
    steps_.emplace_back(Replacement::read(part));
  else
    part["type"].refuse("the normalizer " + type +
                        " is unknown; known are NFC, Prepend, Replace and Sequence");
}

base::Result<std::string> Normalizer::apply(std::string_view text) const {
  base::Result<std::string> made = std::string(text);
  for (const Step& step : steps_) {
    if (made.value().empty()) return made;
    made = std::visit(
        base::Overloaded{
            [&](const Nfc&) -> base::Result<std::string> { return to_nfc(made.value()); },
            [&](const Prepend& one) -> base::Result<std::string> {
              return one.text + made.value();
            },
            [&](const Replacement& one) { return one.apply(made.value()); }},
        step);
    if (!made.ok()) return made;
    if (const auto status = check_growth(text.size(), made.value().size()); !status)
      return status.error();
  }
  return made;
}

}  // namespace tt::tokenize

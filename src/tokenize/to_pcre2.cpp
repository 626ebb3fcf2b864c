#include <cctype>

#include "src/tokenize/pattern.h"

namespace tt::tokenize {
namespace {

// PCRE2's \s has one character more: U+180E.
constexpr std::string_view kSpaces =
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kGroups[] = {"?:", "?=", "?!", "?>", "?<=", "?<!", "?i:", "?i)"};
constexpr std::string_view kSameEscapes = "dDnrtfae";

// Rewrites an expression part by part.
class Translator {
 public:
  explicit Translator(std::string_view expression) : expression_(expression) {}

  base::Result<std::string> run() {
    while (at_ < expression_.size() && problem_.empty()) step();
    if (problem_.empty()) return made_;
    return base::invalid_argument({}, "regular expression \"" + std::string(expression_) +
                                          "\": " + problem_ + " could mean another thing here");
  }

 private:
  std::string_view rest() const { return expression_.substr(at_); }
  void copy(std::size_t bytes) {
    made_.append(rest().substr(0, bytes));
    at_ += bytes;
  }
  void refuse(std::size_t bytes) { problem_ = "\"" + std::string(rest().substr(0, bytes)) + "\""; }

  void step() {
    const char c = expression_[at_];
    if (c == '\\') return in_class_ ? class_escape() : escape();
    if (in_class_) return class_part(c);
    if (c == '[') return begin_class();
    if (c == '^' || c == '$') return refuse(1);
    if (rest().starts_with("(?") || rest().starts_with("(*")) return group();
    if (rest().starts_with("{,") || rest().starts_with("}+")) return refuse(2);
    copy(1);
  }

  void group() {
    for (const std::string_view known : kGroups)
      if (rest().substr(1).starts_with(known)) return copy(1 + known.size());
    refuse(3);
  }

  void begin_class() {
    in_class_ = true;
    copy(rest().starts_with("[^") ? 2 : 1);
    if (rest().starts_with("]")) refuse(1);
  }

  void class_part(char c) {
    if (c == '[' || rest().starts_with("&&")) return refuse(2);
    in_class_ = c != ']';
    copy(1);
  }

  void escape() {
    if (rest().starts_with("\\s")) return write("[" + std::string(kSpaces) + "]");
    if (rest().starts_with("\\S")) return write("[^" + std::string(kSpaces) + "]");
    other_escape();
  }

  void class_escape() {
    if (rest().starts_with("\\s")) return write(std::string(kSpaces));
    other_escape();
  }

  void write(const std::string& text) {
    made_ += text;
    at_ += 2;
  }

  void other_escape() {
    const char c = at_ + 1 < expression_.size() ? expression_[at_ + 1] : '\0';
    if (c == 'u') return code_point();
    if (c == 'p' || c == 'P' || rest().starts_with("\\x{")) return braced();
    const bool is_letter_or_digit = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (c == '\0' || (is_letter_or_digit && kSameEscapes.find(c) == std::string_view::npos))
      return refuse(2);
    copy(2);
  }

  // \p{L}, \x{1F600}
  void braced() {
    const auto end = rest().starts_with("\\x{") || rest().substr(2).starts_with("{")
                         ? rest().find('}')
                         : std::string_view::npos;
    if (end == std::string_view::npos) return refuse(2);
    copy(end + 1);
  }

  // \uHHHH
  void code_point() {
    made_ += "\\x{" + std::string(rest().substr(2, 4)) + "}";
    at_ = std::min(at_ + 6, expression_.size());
  }

  std::string_view expression_;
  std::size_t at_ = 0;
  bool in_class_ = false;
  std::string made_, problem_;
};

}  // namespace

base::Result<std::string> to_pcre2(std::string_view expression) {
  return Translator(expression).run();
}

}  // namespace tt::tokenize

#include "src/hub/http/query.h"

#include <charconv>
#include <system_error>

namespace tt::hub {
namespace {

// Decodes codes such as %41 (A); a text that is not such a code stays unchanged.
std::string decoded(std::string_view text) {
  constexpr int kHex = 16;
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    unsigned code = 0;
    const char* const digits = text.data() + at + 1;
    if (text[at] == '%' && at + 2 < text.size() &&
        std::from_chars(digits, digits + 2, code, kHex).ptr == digits + 2) {
      out += static_cast<char>(code);
      at += 2;
    } else {
      out += text[at] == '+' ? ' ' : text[at];
    }
  }
  return out;
}

}  // namespace

std::map<std::string, std::string> parse_query(std::string_view target) {
  std::map<std::string, std::string> members;
  const auto question = target.find('?');
  std::string_view rest = question == std::string_view::npos ? "" : target.substr(question + 1);
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
    const auto equals = pair.find('=');
    const std::string_view value = equals == std::string_view::npos ? "" : pair.substr(equals + 1);
    members.emplace(decoded(pair.substr(0, equals)), decoded(value));
  }
  return members;
}

}  // namespace tt::hub

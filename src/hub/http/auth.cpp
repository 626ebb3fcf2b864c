#include "src/hub/http/auth.h"

#include <algorithm>
#include <array>
#include <boost/beast/core/string.hpp>

namespace tt::hub {
namespace {

using boost::beast::iequals;

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  const auto last = text.find_last_not_of(" \t");
  return first == std::string_view::npos ? "" : text.substr(first, last - first + 1);
}

// True for "", and for ":" with one to five digits.
bool is_port(std::string_view text) {
  if (text.empty()) return true;
  const std::string_view digits = text.substr(1);
  return text.front() == ':' && !digits.empty() && digits.size() <= 5 &&
         std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// The value of `name` in pairs such as "a=1;b=2".
std::optional<std::string_view> find_value(std::string_view pairs, char separator,
                                           std::string_view name) {
  while (!pairs.empty()) {
    const std::size_t end = std::min(pairs.find(separator), pairs.size());
    const std::string_view pair = trimmed(pairs.substr(0, end));
    pairs.remove_prefix(std::min(end + 1, pairs.size()));
    const std::size_t equals = pair.find('=');
    if (equals != std::string_view::npos && pair.substr(0, equals) == name)
      return pair.substr(equals + 1);
  }
  return std::nullopt;
}

}  // namespace

bool equal_constant_time(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0U : 1U;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const char other = i < b.size() ? b[i] : '\0';
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(other);
  }
  return difference == 0;
}

bool host_allowed(std::string_view host, Names others) {
  const auto is_host = [host](std::string_view name) {
    return iequals(host.substr(0, name.size()), name) && is_port(host.substr(name.size()));
  };
  constexpr std::array<std::string_view, 3> kLoopback = {"localhost", "127.0.0.1", "[::1]"};
  return std::any_of(kLoopback.begin(), kLoopback.end(), is_host) ||
         std::any_of(others.begin(), others.end(), is_host);
}

bool origin_allowed(std::optional<std::string_view> origin, std::string_view host, Names others) {
  if (origin && std::find(others.begin(), others.end(), *origin) != others.end()) return true;
  constexpr std::string_view kScheme = "http://";
  return !origin || (origin->starts_with(kScheme) && iequals(origin->substr(kScheme.size()), host));
}

std::optional<std::string_view> bearer_token(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (!iequals(authorization.substr(0, kScheme.size()), kScheme)) return std::nullopt;
  return trimmed(authorization.substr(kScheme.size()));
}

std::optional<std::string_view> query_value(std::string_view target, std::string_view name) {
  const std::size_t question = target.find('?');
  return question == std::string_view::npos ? std::nullopt
                                            : find_value(target.substr(question + 1), '&', name);
}

std::optional<std::string_view> cookie_value(std::string_view header, std::string_view name) {
  return find_value(header, ';', name);
}

}  // namespace tt::hub

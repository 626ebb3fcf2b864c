#include "tensor_tracer/hub/access.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cctype>

namespace tt::hub {
namespace {

constexpr std::string_view kAnyIpv4 = "0.0.0.0";
constexpr std::string_view kAnyIpv6 = "::";

// True for an address without a zone such as %eth0: no browser sends a zone in Host.
bool is_address(const std::string& text) {
  boost::system::error_code failure;
  boost::asio::ip::make_address(text, failure);
  return !failure && text.find('%') == std::string::npos;
}

// An IPv6 address in the form that browsers send in Host; an IPv6 address has several forms.
std::string canonical(const std::string& text) {
  boost::system::error_code failure;
  const auto address = boost::asio::ip::make_address(text, failure);
  return failure ? text : address.to_string();
}

bool is_origin(std::string_view text) {
  const std::size_t slashes = text.find("://");
  const std::string_view scheme = text.substr(0, slashes);
  return slashes != std::string_view::npos && (scheme == "http" || scheme == "https") &&
         is_host(text.substr(slashes + 3));
}

// True for the names that every hub has, for any bind address.
bool is_own_name(std::string_view bind) {
  return bind.empty() || bind == "localhost" || bind == "127.0.0.1" || bind == "::1";
}

}  // namespace

bool is_host(std::string_view text) {
  return !text.empty() && std::ranges::all_of(
                              text,
                              [](unsigned char c) {
                                return std::isalnum(c) != 0 ||
                                       std::string_view(".-_:[]").find(c) != std::string_view::npos;
                              });
}

bool is_loopback(std::string_view address) {
  const std::string text(address);
  return text.empty() || text == "localhost" || canonical(text) == "::1" ||
         (text.starts_with("127.") && is_address(text));
}

base::Status check(const Access& access) {
  if (!is_loopback(access.bind) && !is_address(access.bind)) {
    return base::invalid_argument("--bind",
                                  "\"" + access.bind + "\" is neither an IPv4 nor an IPv6 address",
                                  "give one of this machine's, or 0.0.0.0 for all of them");
  }
  if (!access.viewers_need_token && !is_loopback(access.bind)) {
    return base::invalid_argument(
        "--auth none", "every user who reaches --bind " + access.bind + " could control the run",
        "leave out --auth none or --bind");
  }
  for (const std::string& origin : access.origins) {
    if (!is_origin(origin)) {
      return base::invalid_argument("--allow-origin", "\"" + origin + "\" is not an origin",
                                    "give it as a browser sends it, such as http://localhost:5173");
    }
  }
  for (const std::string& host : access.hosts) {
    if (!is_host(host)) {
      return base::invalid_argument("--allow-host", "\"" + host + "\" is not a host name",
                                    "give a name or address without http:// and without a path");
    }
  }
  return {};
}

std::vector<std::string> allowed_hosts(const Access& access, const std::string& host) {
  std::vector<std::string> hosts = access.hosts;
  const std::string bind = canonical(access.bind);
  if (bind == kAnyIpv4 || bind == kAnyIpv6) {
    hosts.push_back(host);
  } else if (!is_own_name(bind)) {
    const bool ipv6 = bind.find(':') != std::string::npos;
    hosts.push_back(ipv6 ? "[" + bind + "]" : bind);
  }
  return hosts;
}

std::vector<std::string> listen_addresses(const std::string& given) {
  const std::string bind = canonical(given);
  if (bind == kAnyIpv4) return {bind, "::1"};
  if (bind == kAnyIpv6) return {std::string(kAnyIpv4), bind};
  std::vector<std::string> addresses = {"127.0.0.1", "::1"};
  if (!bind.empty() && bind != "localhost" &&
      std::find(addresses.begin(), addresses.end(), bind) == addresses.end())
    addresses.push_back(bind);
  return addresses;
}

}  // namespace tt::hub

#include "src/link/listener_owner.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace tt::link {
namespace {

constexpr std::string_view kListens = "0A";

// The kernel prints addresses as 32-bit words in the machine's byte order.
std::string printed_loopback() {
  std::array<char, 9> text{};
  std::snprintf(text.data(), text.size(), "%08X", static_cast<unsigned>(htonl(INADDR_LOOPBACK)));
  return text.data();
}

// Addresses that take connections to 127.0.0.1: the loopback address, the address of all
// interfaces, and the IPv6 forms of both.
bool takes_loopback(std::string_view address) {
  static const std::string loopback = printed_loopback();
  static const std::string prefix = [] {
    std::array<char, 9> text{};
    std::snprintf(text.data(), text.size(), "%08X", static_cast<unsigned>(htonl(0xFFFF)));
    return std::string(16, '0') + text.data();
  }();
  return address == loopback || address == prefix + loopback ||
         address.find_first_not_of('0') == std::string_view::npos;
}

bool is_port(std::string_view text, std::uint16_t port) {
  constexpr int kHex = 16;
  unsigned number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number, kHex);
  return parsed.ec == std::errc() && parsed.ptr == end && number == port;
}

}  // namespace

ListenerOwner listener_owner(std::istream& table, std::uint16_t port, uid_t own) {
  ListenerOwner owner = ListenerOwner::kUnknown;
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string local;
    std::string state;
    std::string skipped;
    uid_t uid = 0;
    if (!(fields >> skipped >> local >> skipped >> state >> skipped >> skipped >> skipped >> uid))
      continue;  // the heading
    const std::string_view all = local;
    const std::size_t colon = std::min(all.find(':'), all.size());
    if (state != kListens || !takes_loopback(all.substr(0, colon)) ||
        !is_port(all.substr(std::min(colon + 1, all.size())), port))
      continue;
    if (uid != own) return ListenerOwner::kNotOurs;
    owner = ListenerOwner::kOurs;
  }
  return owner;
}

ListenerOwner listener_owner(std::uint16_t port) {
  std::ifstream ipv4("/proc/net/tcp");
  std::ifstream ipv6("/proc/net/tcp6");
  if (!ipv4.is_open() && !ipv6.is_open()) return ListenerOwner::kUnknown;
  const std::array owners = {listener_owner(ipv4, port, ::geteuid()),
                             listener_owner(ipv6, port, ::geteuid())};
  const auto is = [&](ListenerOwner owner) { return std::ranges::count(owners, owner) > 0; };
  return is(ListenerOwner::kOurs) && !is(ListenerOwner::kNotOurs) ? ListenerOwner::kOurs
                                                                  : ListenerOwner::kNotOurs;
}

}  // namespace tt::link

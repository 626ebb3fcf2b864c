#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "tensor_tracer/hub/server.h"

namespace tt::hub {
namespace {

constexpr int kFirstPort = 8765;
constexpr int kLastPort = 8865;
constexpr int kBacklog = 128;
constexpr int kTriesOfTheKernel = 10;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

// REQUIRES: `text` is an address.
SocketAddress socket_address(const std::string& text, int port) {
  SocketAddress address;
  auto* const ipv4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* const ipv6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (::inet_pton(AF_INET, text.c_str(), &ipv4->sin_addr) == 1) {
    ipv4->sin_family = AF_INET;
    ipv4->sin_port = htons(static_cast<std::uint16_t>(port));
    address.size = sizeof(*ipv4);
  } else {
    ::inet_pton(AF_INET6, text.c_str(), &ipv6->sin6_addr);
    ipv6->sin6_family = AF_INET6;
    ipv6->sin6_port = htons(static_cast<std::uint16_t>(port));
    address.size = sizeof(*ipv6);
  }
  return address;
}

// Errno of the first step that failed, or 0.
int try_listen(const std::string& text, int port, base::ScopedFd& out) {
  const SocketAddress address = socket_address(text, port);
  const int family = address.storage.ss_family;
  base::ScopedFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  // SO_REUSEADDR lets a restart bind over connections in TIME_WAIT, never over a listening socket.
  if (!fd || ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
      (family == AF_INET6 &&
       ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes)) != 0) ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.size) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return errno;
  }
  out = std::move(fd);
  return 0;
}

// One socket per address, all of one port; errno of the first that failed, or 0.
int try_listen_on_all(const std::vector<std::string>& addresses, int port,
                      std::vector<base::ScopedFd>& out) {
  out.clear();
  for (const std::string& address : addresses) {
    base::ScopedFd fd;
    const int failure = try_listen(address, port, fd);
    const bool no_ipv6 = (address == "::1" || address == "::") &&
                         (failure == EADDRNOTAVAIL || failure == EAFNOSUPPORT);
    if (no_ipv6) {
      continue;
    }
    if (failure != 0) {
      return failure;
    }
    port = port == 0 ? port_of(fd).value() : port;
    out.push_back(std::move(fd));
  }
  return 0;
}

base::Error cannot_listen(const std::string& bind, int port, int failure) {
  if (failure == EADDRNOTAVAIL) {
    return base::invalid_argument("--bind", bind + " is not an address of this machine",
                                  "give one that `ip address` shows");
  }
  const bool in_use = failure == EADDRINUSE;
  const std::string where = is_loopback(bind) ? "127.0.0.1" : bind;
  return {
      .code = in_use ? "port_in_use" : "io_error",
      .message = "port " + std::to_string(port) + " cannot be opened on " + where + ": " +
                 (in_use ? "another program uses it" : std::generic_category().message(failure)),
      .where = "--port",
      .remedy = "give --port 0 or another port"};
}

}  // namespace

base::Result<int> port_of(const base::ScopedFd& listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    if (address.ss_family == AF_INET) {
      return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
    }
    if (address.ss_family == AF_INET6) {
      return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
    }
  }
  return base::Error{
      .code = "io_error", .message = "this descriptor is not a TCP socket", .where = "listener"};
}

base::Result<std::vector<base::ScopedFd>> open_listeners(const std::string& bind, int port) {
  const std::vector<std::string> addresses = listen_addresses(bind);
  std::vector<base::ScopedFd> listeners;
  const int first = port == 0 ? kFirstPort : port;
  const int last = port == 0 ? kLastPort : port;
  int failure = EADDRINUSE;
  for (int tried = first; tried <= last && failure == EADDRINUSE; ++tried) {
    failure = try_listen_on_all(addresses, tried, listeners);
  }
  // The kernel's choice is free on the first address; on the others most likely.
  for (int i = 0; port == 0 && i < kTriesOfTheKernel && failure == EADDRINUSE; ++i) {
    failure = try_listen_on_all(addresses, 0, listeners);
  }
  if (failure != 0) {
    return cannot_listen(bind, port, failure);
  }
  return listeners;
}

}  // namespace tt::hub

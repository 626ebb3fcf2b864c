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

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// Errno of the first step that failed, or 0.
int try_listen(int port, base::ScopedFd& out) {
  base::ScopedFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  const sockaddr_in address = loopback(port);
  // SO_REUSEADDR lets a restart bind over connections in TIME_WAIT, never over a listening socket.
  if (!fd || ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return errno;
  }
  out = std::move(fd);
  return 0;
}

}  // namespace

base::Result<int> port_of(const base::ScopedFd& listener) {
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      address.sin_family != AF_INET) {
    return base::Error{.code = "io_error",
                       .message = "this descriptor is no IPv4 socket",
                       .where = "listener",
                       .remedy = {}};
  }
  return ntohs(address.sin_port);
}

base::Result<base::ScopedFd> listen_on_loopback(int port) {
  base::ScopedFd fd;
  const int first = port == 0 ? kFirstPort : port;
  const int last = port == 0 ? kLastPort : port;
  int failure = EADDRINUSE;
  for (int tried = first; tried <= last && failure == EADDRINUSE; ++tried) {
    failure = try_listen(tried, fd);
  }
  if (failure == EADDRINUSE && port == 0) {
    failure = try_listen(0, fd);
  }
  if (failure == 0) {
    return fd;
  }
  const bool in_use = failure == EADDRINUSE;
  return base::Error{
      .code = in_use ? "port_in_use" : "io_error",
      .message = "port " + std::to_string(port) + " cannot be opened on 127.0.0.1: " +
                 (in_use ? "another program uses it" : std::generic_category().message(failure)),
      .where = "--port",
      .remedy = "give --port 0 or another port"};
}

}  // namespace tt::hub

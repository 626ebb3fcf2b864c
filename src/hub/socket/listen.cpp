#include <fcntl.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <utility>

#include "src/hub/socket/net.h"
#include "tensor_tracer/hub/server.h"

namespace tt::hub {
namespace {

constexpr int kFirstPort = 8765;
constexpr int kLastPort = 8865;
constexpr int kBacklog = 128;
constexpr int kTriesOfTheKernel = 10;

constexpr auto kNoAddress = boost::system::errc::address_not_available;

// Throws boost::system::system_error.
base::ScopedFd listen_on(const tcp::endpoint& endpoint) {
  net::io_context io;
  tcp::acceptor acceptor(io, endpoint.protocol());
  // With SO_REUSEADDR a restart can bind while old connections are in TIME_WAIT, but never over a
  // listening socket.
  acceptor.set_option(tcp::acceptor::reuse_address(true));
  if (endpoint.protocol() == tcp::v6()) acceptor.set_option(net::ip::v6_only(true));
  acceptor.bind(endpoint);
  acceptor.listen(kBacklog);
  base::ScopedFd listener(acceptor.release());
  ::fcntl(listener.get(), F_SETFD, FD_CLOEXEC);
  return listener;
}

// Opens one socket per address, all with the same port. Returns the first error.
beast::error_code try_listen_on_all(const std::vector<std::string>& addresses, int port,
                                    std::vector<base::ScopedFd>& out) {
  out.clear();
  for (const std::string& address : addresses) {
    try {
      const auto number = static_cast<std::uint16_t>(port);
      out.push_back(listen_on({net::ip::make_address(address), number}));
      port = port_of(out.back()).value();
    } catch (const boost::system::system_error& error) {
      const bool no_ipv6 =
          (address == "::1" || address == "::") &&
          (error.code() == kNoAddress || error.code() == net::error::address_family_not_supported);
      if (!no_ipv6) return error.code();
    }
  }
  return {};
}

base::Error cannot_listen(const std::string& bind, int port, const beast::error_code& failure) {
  if (failure == kNoAddress) {
    return base::invalid_argument("--bind", bind + " is not an address of this machine",
                                  "give one that `ip address` shows");
  }
  const bool in_use = failure == net::error::address_in_use;
  const std::string where = is_loopback(bind) ? "127.0.0.1" : bind;
  return {.code = in_use ? "port_in_use" : "io_error",
          .message = "port " + std::to_string(port) + " cannot be opened on " + where + ": " +
                     (in_use ? "another program uses it" : failure.message()),
          .where = "--port",
          .remedy = "give --port 0 or another port"};
}

}  // namespace

std::optional<tcp::endpoint> local_endpoint(const base::ScopedFd& socket) {
  tcp::endpoint endpoint;
  auto size = static_cast<socklen_t>(endpoint.capacity());
  const bool known = ::getsockname(socket.get(), endpoint.data(), &size) == 0;
  const int family = known ? endpoint.data()->sa_family : AF_UNSPEC;
  return family == AF_INET || family == AF_INET6 ? std::optional(endpoint) : std::nullopt;
}

base::Result<int> port_of(const base::ScopedFd& listener) {
  if (const auto endpoint = local_endpoint(listener)) return endpoint->port();
  return base::Error{
      .code = "io_error", .message = "this descriptor is not a TCP socket", .where = "listener"};
}

base::Result<std::vector<base::ScopedFd>> open_listeners(const std::string& bind, int port) {
  const std::vector<std::string> addresses = listen_addresses(bind);
  std::vector<base::ScopedFd> listeners;
  const int first = port == 0 ? kFirstPort : port;
  const int last = port == 0 ? kLastPort : port;
  beast::error_code failure = net::error::address_in_use;
  for (int tried = first; tried <= last && failure == net::error::address_in_use; ++tried)
    failure = try_listen_on_all(addresses, tried, listeners);
  // The kernel chooses a port that is free on the first address; it is most likely free on the
  // others.
  for (int i = 0; port == 0 && i < kTriesOfTheKernel && failure == net::error::address_in_use; ++i)
    failure = try_listen_on_all(addresses, 0, listeners);
  if (failure) return cannot_listen(bind, port, failure);
  return listeners;
}

}  // namespace tt::hub

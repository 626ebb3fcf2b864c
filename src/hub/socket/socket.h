#pragma once

#include <boost/asio/compose.hpp>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/hub/fanout/clock.h"
#include "src/hub/socket/net.h"

namespace tt::hub {

/// The TCP socket under a WebSocket. It counts the bytes that the system has accepted, and at the
/// end it reads to the client's end.
/// Thread: the hub's I/O thread only.
class Socket : public tcp::socket {
 public:
  explicit Socket(tcp::socket accepted) : tcp::socket(std::move(accepted)) {}

  std::uint64_t written() const { return written_; }
  /// True if the client has not ended its side in time after ours has ended: the owner closes.
  bool drains_too_long(Clock::time_point now) const { return now > drain_end_; }

  template <typename Buffers, typename Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    return net::async_compose<Token, void(beast::error_code, std::size_t)>(
        Write<Buffers>{*this, buffers}, token, *this);
  }

  /// Ends the sending side, then reads to the client's end. If the socket were closed earlier, the
  /// system would answer later bytes with a reset, and the client would lose the close frame.
  /// (The teardown of Beast 1.81 closes after one read.)
  template <typename Token>
  auto async_drain(Token&& token) {
    drain_end_ = Clock::now() + kLinger;
    drained_.resize(kDrainBytes);
    beast::error_code ignored;  // the read will return the error
    shutdown(tcp::socket::shutdown_send, ignored);
    return net::async_compose<Token, void(beast::error_code)>(Drain{*this}, token, *this);
  }

 private:
  static constexpr std::chrono::seconds kLinger{2};
  static constexpr std::size_t kDrainBytes = std::size_t{64} << 10U;

  template <typename Buffers>
  struct Write {
    Socket& socket;
    Buffers buffers;
    bool writing = false;

    template <typename Self>
    void operator()(Self& self, beast::error_code failure = {}, std::size_t bytes = 0) {
      if (std::exchange(writing, true)) {
        socket.written_ += bytes;
        self.complete(failure, bytes);
      } else {
        const Buffers from = buffers;
        static_cast<tcp::socket&>(socket).async_write_some(from, std::move(self));
      }
    }
  };

  struct Drain {
    Socket& socket;

    template <typename Self>
    void operator()(Self& self, beast::error_code failure = {}, std::size_t /*bytes*/ = 0) {
      if (failure) {
        beast::error_code ignored;
        socket.close(ignored);
        self.complete(failure == net::error::eof ? beast::error_code() : failure);
      } else {
        socket.async_read_some(net::buffer(socket.drained_), std::move(self));
      }
    }
  };

  std::uint64_t written_ = 0;
  Clock::time_point drain_end_ = Clock::time_point::max();
  std::vector<char> drained_;
};

/// Reads ahead, so that many small messages cost one system call.
using ReadAhead = beast::buffered_read_stream<Socket, beast::flat_buffer>;

/// Beast calls it to end the connection.
template <typename Handler>
void async_teardown(beast::role_type /*role*/, ReadAhead& stream, Handler&& handler) {
  stream.next_layer().async_drain(std::forward<Handler>(handler));
}

}  // namespace tt::hub

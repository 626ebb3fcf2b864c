#pragma once

#include <algorithm>
#include <boost/asio/compose.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "src/hub/net.h"

namespace tt::hub {

/// The socket under a WebSocket. Beast reads through it, and writes its own frames with it: the
/// handshake's answer, pings, pongs and the close frame. Frames with data do not pass through
/// Beast: Asio's composed writes give the system at most 64 KiB at a time, which costs several
/// times the CPU time of whole frames. Frames never mix: each is written to its end before the
/// next.
///
/// Small reads take bytes that were read ahead, so that many small messages cost one system call.
/// Thread: the hub's I/O thread only.
class Transport {
 public:
  using executor_type = tcp::socket::executor_type;  // NOLINT(readability-identifier-naming)

  /// A read of `least` bytes or more does not use the read-ahead buffer. Each time that smaller
  /// reads fill the whole buffer, its size is doubled, up to `most`: in every read call the system
  /// also informs the sender that there is room again.
  struct ReadAhead {
    std::size_t least;
    std::size_t most;
  };

  Transport(tcp::socket socket, const ReadAhead& read_ahead)
      : state_(std::make_shared<State>(std::move(socket), read_ahead)) {}

  executor_type get_executor() { return state_->socket.get_executor(); }
  void close() { state_->close(); }
  /// True while it reads to the client's end; then it closes itself.
  bool is_draining() const { return state_->draining; }
  /// Bytes of data frames that the system has accepted.
  std::uint64_t written() const { return state_->written; }
  /// True if bytes have arrived that no reader has taken.
  bool has_input() const { return state_->ahead_begin < state_->ahead_end; }

  template <typename Buffers, typename Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    return compose(Read<Buffers>{state_, buffers}, token);
  }

  /// Writes a frame of Beast. Each call of Beast writes one whole frame, small enough for one write
  /// of Asio. It is sent before waiting data.
  template <typename Buffers, typename Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    return compose(WriteOwn<Buffers>{state_, buffers}, token);
  }

  /// Writes one frame with its header. REQUIRES: no other frame is being written. `frame` is
  /// modified; `frame` and its buffers outlive the operation.
  template <typename Token>
  auto async_write_frame(std::span<net::const_buffer> frame, Token&& token) {
    return compose(WriteFrame{state_, frame}, token);
  }

  /// Ends the sending side, then reads to the client's end, for kLinger at most. If the socket were
  /// closed earlier, the system would answer later bytes with a reset, and the client would lose
  /// the close frame. (Beast 1.81's own teardown closes after one read.)
  template <typename Token>
  auto async_drain(Token&& token) {
    return net::async_compose<Token, void(beast::error_code)>(Drain{state_}, token, state_->socket);
  }

 private:
  static constexpr std::chrono::seconds kLinger{2};

  struct State {
    State(tcp::socket accepted, const ReadAhead& sizes)
        : socket(std::move(accepted)),
          turn(socket.get_executor(), std::chrono::steady_clock::time_point::max()),
          linger(socket.get_executor()),
          read_ahead(sizes),
          ahead(sizes.least) {}

    void close() {
      beast::error_code ignored;
      socket.close(ignored);
    }

    net::mutable_buffer room_ahead() {
      if (ahead.size() < next_ahead) {
        ahead = std::vector<char>(next_ahead);
      }
      return net::buffer(ahead.data(), next_ahead);
    }

    void filled(std::size_t bytes) {
      ahead_begin = 0;
      ahead_end = bytes;
      if (bytes == next_ahead) {
        next_ahead = std::min(2 * next_ahead, read_ahead.most);
      }
    }

    void end_turn() {
      writing = false;
      turn.cancel();
    }

    tcp::socket socket;
    net::steady_timer turn;  // cancelled when a writer's turn has ended
    net::steady_timer linger;
    bool writing = false;
    bool draining = false;
    int own_waiting = 0;
    std::uint64_t written = 0;
    const ReadAhead read_ahead;
    std::size_t next_ahead = read_ahead.least;
    std::vector<char> ahead;
    std::size_t ahead_begin = 0;
    std::size_t ahead_end = 0;
  };
  using Shared = std::shared_ptr<State>;  // operations of Beast may outlive the transport

  template <typename Operation, typename Token>
  auto compose(Operation operation, Token& token) {
    return net::async_compose<Token, void(beast::error_code, std::size_t)>(std::move(operation),
                                                                           token, state_->socket);
  }

  template <typename Buffers>
  struct Read {
    enum class Step { kStart, kCopy, kFilled, kDirect };
    Shared state;
    Buffers buffers;
    Step step = Step::kStart;

    template <typename Self>
    void operator()(Self& self, beast::error_code failure = {}, std::size_t bytes = 0) {
      State& s = *state;
      if (step == Step::kStart) {
        start(self);
        return;
      }
      if (step == Step::kFilled) {
        s.filled(bytes);
      }
      if (step != Step::kDirect) {
        bytes = net::buffer_copy(
            buffers, net::buffer(s.ahead.data() + s.ahead_begin, s.ahead_end - s.ahead_begin));
        s.ahead_begin += bytes;
      }
      self.complete(failure, bytes);
    }

    template <typename Self>
    void start(Self& self) {
      State& s = *state;
      if (s.ahead_begin < s.ahead_end) {
        step = Step::kCopy;
        net::post(s.socket.get_executor(), std::move(self));
      } else if (beast::buffer_bytes(buffers) < s.read_ahead.least) {
        step = Step::kFilled;
        s.socket.async_read_some(s.room_ahead(), std::move(self));
      } else {
        step = Step::kDirect;
        s.next_ahead = s.read_ahead.least;
        const Buffers to = buffers;
        s.socket.async_read_some(to, std::move(self));
      }
    }
  };

  template <typename Buffers>
  struct WriteOwn {
    enum class Step { kStart, kWaiting, kWriting };
    Shared state;
    Buffers buffers;
    Step step = Step::kStart;

    template <typename Self>
    void operator()(Self& self, beast::error_code failure = {}, std::size_t bytes = 0) {
      State& s = *state;
      if (step == Step::kWriting) {
        s.end_turn();
        self.complete(failure, bytes);
        return;
      }
      s.own_waiting -= step == Step::kWaiting ? 1 : 0;
      if (s.writing) {
        step = Step::kWaiting;
        ++s.own_waiting;
        s.turn.async_wait(std::move(self));
        return;
      }
      s.writing = true;
      step = Step::kWriting;
      const Buffers from = buffers;
      net::async_write(s.socket, from, std::move(self));
    }
  };

  struct WriteFrame {
    Shared state;
    std::span<net::const_buffer> left;
    bool writing = false;
    std::size_t written = 0;

    template <typename Self>
    void operator()(Self& self, beast::error_code failure = {}, std::size_t bytes = 0) {
      State& s = *state;
      if (writing) {
        consume(bytes);
        if (failure || left.empty()) {
          s.end_turn();
          self.complete(failure, written);
          return;
        }
      } else if (s.writing || s.own_waiting > 0) {
        s.turn.async_wait(std::move(self));
        return;
      }
      writing = s.writing = true;
      const std::span<net::const_buffer> from = left;
      s.socket.async_write_some(from, std::move(self));
    }

    void consume(std::size_t bytes) {
      written += bytes;
      state->written += bytes;
      while (!left.empty() && bytes >= left.front().size()) {
        bytes -= left.front().size();
        left = left.subspan(1);
      }
      if (!left.empty()) {
        left.front() += bytes;
      }
    }
  };

  struct Drain {
    Shared state;

    template <typename Self>
    void operator()(Self& self, beast::error_code failure = {}, std::size_t /*bytes*/ = 0) {
      State& s = *state;
      if (failure) {
        s.linger.cancel();
        s.close();
        self.complete(failure == net::error::eof ? beast::error_code() : failure);
        return;
      }
      if (!s.draining) {
        begin();
      }
      s.socket.async_read_some(net::buffer(s.ahead), std::move(self));
    }

    void begin() {
      state->draining = true;
      beast::error_code ignored;  // the read will return the error
      state->socket.shutdown(tcp::socket::shutdown_send, ignored);
      state->linger.expires_after(kLinger);
      state->linger.async_wait([lasting = state](beast::error_code cancelled) {
        if (!cancelled) {
          lasting->close();
        }
      });
    }
  };

  Shared state_;
};

inline void beast_close_socket(Transport& transport) { transport.close(); }

template <typename Handler>
void async_teardown(beast::role_type /*role*/, Transport& transport, Handler&& handler) {
  transport.async_drain(std::forward<Handler>(handler));
}

}  // namespace tt::hub

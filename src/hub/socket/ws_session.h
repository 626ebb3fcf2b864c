#pragma once

#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/hub/process/context.h"
#include "src/hub/socket/net.h"
#include "src/hub/socket/socket.h"

namespace tt::hub {

/// One WebSocket, of a viewer or a worker. One read is always pending. When the read fails, the
/// session leaves the room; there is no other way out. At most one write is in flight; other
/// messages wait in the queue. A client that takes no bytes for the idle time-out is disconnected,
/// whatever it sends.
///
///     accepting -> open -> closing -> ended
///
/// Thread: the hub's I/O thread only. Owner: its handlers, by shared_ptr.
class WsSession : public Client, public Connection, public std::enable_shared_from_this<WsSession> {
 public:
  /// `context` outlives the session.
  WsSession(tcp::socket socket, Role role, bool may_control, Context& context);
  ~WsSession() override;

  void start(HttpRequest request);

  void wake() override;
  void tick(Clock::time_point now) override;
  void close(std::string_view reason) override;
  void close_after_sending(std::string_view reason) override;
  void close_for_violation(std::string_view reason) override;
  void finish() override { close_after_sending("the hub ends"); }
  void kill() override;

 private:
  // permessage-deflate is not compiled in: it costs 20 ms or more per megabyte.
  using Stream = websocket::stream<ReadAhead, false>;

  Socket& socket() { return stream_.next_layer().next_layer(); }
  void configure();
  void on_accept(beast::error_code failure);
  void read();
  void read_on();
  void on_read(beast::error_code failure);
  void handle_message();
  void post_write(int rounds);
  bool more_will_come();
  void write();
  /// Fills buffers_ with in_flight_; returns the number of bytes.
  std::size_t gather();
  void on_write(beast::error_code failure);
  void send_close();
  /// Ends the connection if it does not end in time. A connection that still sends its queue is
  /// ended once the client takes nothing.
  void limit_close();
  void end();

  Stream stream_;
  Context& context_;
  Connections::Ticket ticket_;
  net::steady_timer close_timer_;
  HttpRequest request_;
  std::shared_ptr<beast::flat_buffer> message_;  // the message that is being read
  Outgoing in_flight_;
  std::vector<net::const_buffer> buffers_;
  std::string copied_;  // the small parts
  std::string close_reason_;
  websocket::close_code close_code_ = websocket::close_code::going_away;
  bool open_ = false;
  bool write_posted_ = false;
  std::uint64_t written_ = 0;                     // at the last tick
  Clock::time_point write_moved_ = Clock::now();  // when something was written, or nothing waited
  bool closing_ = false;                          // nothing more is read or queued
  bool drain_ = false;                            // closing, but the queue is sent first
  bool close_sent_ = false;
};

}  // namespace tt::hub

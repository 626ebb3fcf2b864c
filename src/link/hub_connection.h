#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/link/channel.h"
#include "tensor_tracer/protocol/message.h"

namespace tt::link {

/// The WebSocket to the hub: connects, says hello, writes the messages of the channel, and delivers
/// the messages that arrive. When a connection ends, it connects again. On this machine it sends
/// its token only to a program of the same user, as far as /proc states the user of a program.
/// Thread: that of the I/O context only. Owner: `channel` outlives it.
class HubConnection {
 public:
  /// The messages that open every connection: first hello, then the messages that must be sent
  /// again.
  using Opening = std::function<std::vector<std::string>()>;

  struct Address {
    std::string host;  // 127.0.0.1, or an address or a name of another machine
    int port;
  };

  HubConnection(boost::asio::io_context& io, Channel& channel, Address hub, std::string token,
                Opening opening);

  /// Runs until close().
  boost::asio::awaitable<void> run();
  /// Call this when a message may wait in the channel.
  void wake();
  /// Ends the connection and run(), after a write that is under way.
  void close();

 private:
  using Stream = boost::beast::websocket::stream<boost::beast::tcp_stream, false>;

  boost::asio::awaitable<boost::beast::error_code> connect();
  boost::asio::awaitable<boost::beast::error_code> reach_hub();
  boost::asio::awaitable<boost::beast::error_code> open();
  boost::asio::awaitable<boost::beast::error_code> read_all();
  boost::asio::awaitable<void> pause();
  bool is_foreign();
  void handle(std::string_view text);
  void on_event(const protocol::Notification& event);
  void on_welcome();
  void write();
  void on_written(boost::beast::error_code failure);
  /// Sends the close frame. The hub's answer ends run().
  void say_goodbye();
  /// Sends, about once a second while messages are written, how long the writes took and how many
  /// bytes wait.
  void notify_times(Channel::Clock::time_point now);

  boost::asio::io_context& io_;
  Channel& channel_;
  const Address hub_;
  const std::string token_;
  const Opening opening_;
  std::optional<Stream> stream_;
  boost::beast::flat_buffer buffer_;
  std::optional<Outgoing> in_flight_;
  Channel::Clock::time_point write_began_;
  Channel::Clock::time_point times_told_ = Channel::Clock::now();
  std::chrono::duration<double> send_time_{0};
  std::size_t told_bytes_ = 0;  // waiting bytes, as last reported
  std::chrono::milliseconds pause_;
  std::string controller_;  // who asked for the next change; empty: the hub
  bool open_ = false;
  bool greeted_ = false;
  bool closing_ = false;
  bool loss_logged_ = false;
  bool foreign_logged_ = false;
};

}  // namespace tt::link

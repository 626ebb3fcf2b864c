#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <optional>

#include "src/hub/process/context.h"
#include "src/hub/socket/net.h"

namespace tt::hub {

/// An HTTP connection, until it ends or becomes a WebSocket.
/// Thread: the hub's I/O thread only. Owner: its own coroutine, by shared_ptr.
class HttpSession : public Connection, public std::enable_shared_from_this<HttpSession> {
 public:
  /// `context` outlives the session.
  HttpSession(tcp::socket socket, Context& context)
      : stream_(std::move(socket)), context_(context) {}
  ~HttpSession() override;
  HttpSession(const HttpSession&) = delete;
  HttpSession& operator=(const HttpSession&) = delete;

  void start();
  void finish() override { kill(); }
  void kill() override;

 private:
  net::awaitable<void> serve();
  net::awaitable<bool> serve_request();
  net::awaitable<bool> write(HttpResponse response);
  std::optional<HttpResponse> refuse_upgrade(const HttpRequest& request) const;
  void upgrade(HttpRequest request);

  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  Context& context_;
  std::optional<Connections::Ticket> ticket_;
};

}  // namespace tt::hub

// The hub's WebSocket sessions with a room that says everything back: what the Autobahn cases want
// of a server. tests/e2e/test_autobahn.py drives it.
//
//     echo_hub        prints its port and serves until it is killed
//
// Workers connect to /worker, viewers to any other path.
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "src/hub/process/context.h"
#include "src/hub/socket/ws_session.h"

namespace tt::hub {
namespace {

class EchoRoom : public Room {
 public:
  // A batch of no bytes: each record is a separate message.
  EchoRoom() : Room({.queue = {.total_bytes = std::size_t{64} << 20U, .batch_bytes = 0}}) {}

  void on_text(Client& client, std::string_view text, Clock::time_point /*now*/) override {
    if (client.queue().push_text(std::make_shared<const std::string>(text)))
      client.wake();
    else
      client.close("more than the queue holds");
  }

  // Every record has a different key, so that none replaces another.
  void on_binary(Client& client, const SharedBytes& message, Clock::time_point now) override {
    client.queue().push_record({.key = {.run = ++messages_}, .bytes = message}, now);
    client.queue().end_message(now);
    client.wake();
  }

 private:
  std::uint64_t messages_ = 0;
};

class EchoServer {
 public:
  EchoServer() : acceptor_(io_, {net::ip::address_v4::loopback(), 0}) {}

  void run() {
    std::printf("%d\n", acceptor_.local_endpoint().port());
    std::fflush(stdout);
    accept();
    io_.run();
  }

 private:
  void accept() {
    acceptor_.async_accept([this](beast::error_code failure, tcp::socket socket) {
      if (!failure) serve(std::move(socket));
      accept();
    });
  }

  void serve(tcp::socket socket) {
    beast::flat_buffer buffer;
    HttpRequest request;
    beast::error_code failure;
    http::read(socket, buffer, request, failure);
    if (failure) return;
    const Role role = request.target() == "/worker" ? Role::kWorker : Role::kViewer;
    std::make_shared<WsSession>(std::move(socket), role, true, context_)->start(std::move(request));
  }

  Context context_{ServerOptions{}, std::make_unique<EchoRoom>()};
  net::io_context io_{1};
  tcp::acceptor acceptor_;
};

}  // namespace
}  // namespace tt::hub

int main() {
  tt::hub::EchoServer().run();
  return 0;
}

#include "src/hub/http/http_session.h"

#include <spdlog/spdlog.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <exception>
#include <utility>

#include "src/hub/http/history_question.h"
#include "src/hub/http/http_answers.h"
#include "src/hub/socket/ws_session.h"

namespace tt::hub {
namespace {
constexpr auto kAwait = net::as_tuple(net::use_awaitable);
constexpr std::uint32_t kMaxHeaderBytes = 8 * 1024;
constexpr std::uint64_t kMaxBodyBytes = 4 * 1024;
constexpr std::size_t kKeptForControllers = 4;      // places that view-only clients leave free
constexpr std::uint64_t kSlowestBytes = 64 * 1024;  // per second, for the reader of an answer
}  // namespace

HttpSession::~HttpSession() {
  if (ticket_) context_.handshakes.remove(*ticket_);
}

void HttpSession::start() {
  ticket_ = context_.handshakes.add(weak_from_this());
  net::co_spawn(
      stream_.get_executor(), [self = shared_from_this()] { return self->serve(); },
      [&metrics = context_.room.metrics()](const std::exception_ptr& failure) {
        try {
          if (failure) std::rethrow_exception(failure);
        } catch (const std::exception& error) {
          ++metrics.errors;
          spdlog::error("http_failed: {}", error.what());
        }
      });
}

void HttpSession::kill() { stream_.close(); }

net::awaitable<void> HttpSession::serve() {
  while (co_await serve_request()) {
  }
  beast::error_code ignored;
  if (stream_.socket().is_open()) stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
}

// False if the connection has ended, is about to end, or is now a WebSocket.
net::awaitable<bool> HttpSession::serve_request() {
  http::request_parser<http::string_body> parser;
  parser.header_limit(kMaxHeaderBytes);
  parser.body_limit(kMaxBodyBytes);
  stream_.expires_after(context_.options.handshake_timeout);
  const auto [failure, bytes] = co_await http::async_read(stream_, buffer_, parser, kAwait);
  if (failure) {
    // An error of the parser is the client's mistake; other errors need no answer.
    if (failure.category() == http::make_error_code(http::error::bad_method).category() &&
        failure != http::error::end_of_stream)
      co_await write(make_answer({}, http::status::bad_request, "text/plain", "bad request\n"));
    co_return false;
  }
  HttpRequest request = parser.release();
  if (auto refused = refuse_foreign(request, context_.options.access))
    co_return co_await write(std::move(*refused));
  const bool upgrade_wanted = websocket::is_upgrade(request);
  if (!upgrade_wanted && asks_history(request, context_.options)) {
    HistoryAnswer answer = co_await ask_history(stream_, context_, std::move(request));
    co_return co_await write(std::move(answer.response));
  }
  if (!upgrade_wanted) co_return co_await write(answer_plain(request, context_));
  if (auto refused = refuse_upgrade(request)) co_return co_await write(std::move(*refused));
  upgrade(std::move(request));
  co_return false;
}

net::awaitable<bool> HttpSession::write(HttpResponse response) {
  context_.room.metrics().count_http(response.result_int());
  const std::chrono::seconds at_slowest(response.body().size() / kSlowestBytes);
  stream_.expires_after(context_.options.handshake_timeout + at_slowest);
  const auto [failure, bytes] = co_await http::async_write(stream_, response, kAwait);
  co_return !failure && response.keep_alive();
}

std::optional<HttpResponse> HttpSession::refuse_upgrade(const HttpRequest& request) const {
  const auto role = role_of(request);
  if (!role) return make_answer(request, http::status::not_found, "text/plain", "not found\n");
  const auto right = right_of(request, *role, context_.options);
  if (!right) return refuse_token(request, context_);
  const bool viewer = *role == Role::kViewer;
  const std::size_t taken = viewer ? context_.viewers.size() : context_.workers.size();
  const std::size_t kept = right == Right::kView ? kKeptForControllers : 0;
  if (taken + kept >= (viewer ? context_.options.max_viewers : context_.options.max_workers)) {
    return make_answer(request, http::status::service_unavailable, "text/plain",
                       viewer ? "too many viewers\n" : "too many workers\n");
  }
  if (buffer_.size() != 0) {
    // RFC 6455, 4.1: the client must wait for the answer. Beast would lose bytes that arrived
    // earlier.
    return make_answer(request, http::status::bad_request, "text/plain",
                       "frames follow the answer, not the request\n");
  }
  return std::nullopt;
}

void HttpSession::upgrade(HttpRequest request) {
  const Role role = *role_of(request);
  const bool may_control = right_of(request, role, context_.options) == Right::kControl;
  stream_.expires_never();  // from here on the time-outs of the WebSocket apply
  const auto session =
      std::make_shared<WsSession>(stream_.release_socket(), role, may_control, context_);
  session->start(std::move(request));
}

}  // namespace tt::hub

#include "src/hub/alarms/webhook.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <string_view>

#include "tensor_tracer/hub/access.h"

namespace tt::hub {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
namespace net = boost::asio;

constexpr auto kAwait = net::as_tuple(net::use_awaitable);
constexpr auto kRunInterval = std::chrono::milliseconds(50);
constexpr std::uint64_t kMaxAnswer = std::uint64_t{1} << 20U;
constexpr int kHttp11 = 11;

base::Error webhook_failed(std::string message) {
  return {.code = "call_failed", .message = std::move(message), .where = "--alarm-webhook"};
}

using Request = http::request<http::string_body>;

// Returns the error; nothing if the answer is a success.
net::awaitable<base::Status> deliver(const WebhookUrl& url, const Request& request) {
  net::ip::tcp::resolver resolver(co_await net::this_coro::executor);
  const auto [unknown, addresses] = co_await resolver.async_resolve(url.host, url.port, kAwait);
  if (unknown) co_return webhook_failed(url.host + ": " + unknown.message());
  beast::tcp_stream stream(co_await net::this_coro::executor);
  const auto [refused, endpoint] = co_await stream.async_connect(addresses, kAwait);
  if (refused) co_return webhook_failed("no connection: " + refused.message());
  const auto [unsent, sent] = co_await http::async_write(stream, request, kAwait);
  if (unsent) co_return webhook_failed("not sent: " + unsent.message());
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> answer;
  answer.body_limit(kMaxAnswer);
  const auto [silent, read] = co_await http::async_read_header(stream, buffer, answer, kAwait);
  if (silent) co_return webhook_failed("no answer: " + silent.message());
  const unsigned status = answer.get().result_int();
  if (status / 100 != 2) co_return webhook_failed("the answer is status " + std::to_string(status));
  co_return base::Status();
}

}  // namespace

base::Result<WebhookUrl> parse_webhook(const std::string& url) {
  constexpr std::string_view kHttp = "http://";
  constexpr const char* kFlag = "--alarm-webhook";
  if (url.starts_with("https://")) {
    return base::invalid_argument(kFlag, "the hub has no TLS library for https",
                                  "use --alarm-command with curl: docs/alarms.md");
  }
  if (!url.starts_with(kHttp))
    return base::invalid_argument(kFlag, url + " is not an address", "begin it with http://");
  const std::string rest = url.substr(kHttp.size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  const std::string authority = rest.substr(0, slash);
  const auto is_plain = [](unsigned char c) { return c > 0x20 && c < 0x7f; };
  if (!is_host(authority) || !std::ranges::all_of(url, is_plain)) {
    return base::invalid_argument(kFlag, url + " is not an address",
                                  "use the form http://host:port/path");
  }
  WebhookUrl parsed{.host = authority};
  const std::size_t colon = authority.rfind(':');
  const std::size_t bracket = authority.rfind(']');
  if (colon != std::string::npos && (bracket == std::string::npos || colon > bracket)) {
    parsed.host = authority.substr(0, colon);
    parsed.port = authority.substr(colon + 1);
  }
  if (parsed.host.starts_with('[')) parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
  if (slash < rest.size()) parsed.target = rest.substr(slash);
  return parsed;
}

base::Status post_webhook(const WebhookUrl& url, const std::string& body,
                          const std::function<std::chrono::steady_clock::time_point()>& deadline) {
  Request request(http::verb::post, url.target, kHttp11, body);
  request.set(http::field::host, url.host + ":" + url.port);
  request.set(http::field::content_type, "application/json");
  request.set(http::field::user_agent, "tensor-tracer");
  request.set(http::field::connection, "close");
  request.prepare_payload();
  base::Status outcome = webhook_failed("it took too long");
  bool over = false;
  net::io_context io;
  net::co_spawn(io, deliver(url, request),
                [&](const std::exception_ptr& error, base::Status status) {
                  over = true;
                  outcome = error == nullptr ? std::move(status) : webhook_failed("it failed");
                });
  while (!over && std::chrono::steady_clock::now() < deadline()) {
    io.run_for(kRunInterval);
    io.restart();
  }
  return outcome;
}

}  // namespace tt::hub

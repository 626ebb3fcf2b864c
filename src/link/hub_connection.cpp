#include "src/link/hub_connection.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tuple>
#include <utility>

#include "src/link/listener_owner.h"
#include "src/link/log.h"
#include "tensor_tracer/protocol/json_members.h"
#include "tensor_tracer/protocol/message.h"

namespace tt::link {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace net = boost::asio;
namespace websocket = boost::beast::websocket;
using namespace std::chrono_literals;

constexpr auto kAwait = net::as_tuple(net::use_awaitable);
constexpr std::chrono::milliseconds kFirstPause = 100ms;
constexpr std::chrono::milliseconds kLongestPause = 2000ms;
constexpr auto kHandshakeTimeout = 5s;
constexpr auto kIdleTimeout = 30s;
constexpr auto kTellTimes = 1s;
constexpr std::size_t kMaxMessage = std::size_t{1} << 20U;
constexpr std::size_t kWriteBuffer = std::size_t{64} << 10U;
constexpr protocol::TextLimits kLimits{.bytes = kMaxMessage, .depth = 40};

// Without a list of entries, all entries are wanted.
trace::Demand demand_in(const nlohmann::json& params) {
  const nlohmann::json& entries = protocol::member(params, "entries");
  const auto plan = protocol::natural(params, "plan");
  if (!entries.is_array() || !plan) return {};
  trace::Demand demand{.entries = 0, .plan = static_cast<std::uint32_t>(*plan)};
  for (const nlohmann::json& entry : entries)
    if (entry.is_number_unsigned() && entry < 64)
      demand.entries |= std::uint64_t{1} << entry.get<std::uint64_t>();
  return demand;
}

}  // namespace

HubConnection::HubConnection(net::io_context& io, Channel& channel, Address hub, std::string token,
                             Opening opening)
    : io_(io),
      channel_(channel),
      hub_(std::move(hub)),
      token_(std::move(token)),
      opening_(std::move(opening)),
      pause_(kFirstPause) {}

net::awaitable<void> HubConnection::run() {
  while (!closing_) {
    stream_.emplace(io_);
    beast::error_code failure = co_await connect();
    if (!failure) failure = co_await open();
    if (!failure) failure = co_await read_all();
    open_ = false;
    greeted_ = false;
    channel_.set_lost(Channel::Clock::now());
    if (!loss_logged_ && !closing_) {
      log(LogLevel::kWarning, "no contact with the hub (" + failure.message() + "); trying again");
      loss_logged_ = true;
    }
    beast::get_lowest_layer(*stream_).close();
    while (in_flight_) {  // the write's handler runs soon after the socket is closed
      net::steady_timer turn(io_, 1ms);
      co_await turn.async_wait(kAwait);
    }
    if (!closing_) co_await pause();
  }
}

net::awaitable<beast::error_code> HubConnection::connect() {
  beast::tcp_stream& socket = beast::get_lowest_layer(*stream_);
  socket.expires_after(kHandshakeTimeout);
  const beast::error_code refused = co_await reach_hub();
  if (refused) co_return refused;
  if (is_foreign()) co_return make_error_code(boost::system::errc::permission_denied);
  beast::error_code ignored;
  socket.socket().set_option(net::ip::tcp::no_delay(true), ignored);
  socket.expires_never();
  stream_->set_option(websocket::stream_base::timeout{.handshake_timeout = kHandshakeTimeout,
                                                      .idle_timeout = kIdleTimeout,
                                                      .keep_alive_pings = true});
  stream_->set_option(websocket::stream_base::decorator([this](websocket::request_type& request) {
    request.set(http::field::authorization, "Bearer " + token_);
  }));
  stream_->auto_fragment(false);
  stream_->write_buffer_bytes(kWriteBuffer);
  stream_->read_message_max(kMaxMessage);
  const bool is_ipv6 = hub_.host.find(':') != std::string::npos;
  const std::string host = is_ipv6 ? "[" + hub_.host + "]" : hub_.host;
  const auto [failure] =
      co_await stream_->async_handshake(host + ":" + std::to_string(hub_.port), "/worker", kAwait);
  co_return failure;
}

net::awaitable<beast::error_code> HubConnection::reach_hub() {
  beast::tcp_stream& socket = beast::get_lowest_layer(*stream_);
  const auto port = static_cast<std::uint16_t>(hub_.port);
  beast::error_code failure;
  const net::ip::address address = net::ip::make_address(hub_.host, failure);
  if (!failure) {  // needs no resolver, which would have a thread
    std::tie(failure) = co_await socket.async_connect({address, port}, kAwait);
    co_return failure;
  }
  net::ip::tcp::resolver resolver(io_);
  const auto [unknown, found] =
      co_await resolver.async_resolve(hub_.host, std::to_string(port), kAwait);
  if (unknown) co_return unknown;
  const auto [refused, at] = co_await socket.async_connect(found, kAwait);
  co_return refused;
}

// After our hub has ended, another program may have bound its port, and would get the token.
bool HubConnection::is_foreign() {
  if (hub_.host != "127.0.0.1" ||
      listener_owner(static_cast<std::uint16_t>(hub_.port)) != ListenerOwner::kNotOurs)
    return false;
  if (!foreign_logged_) {
    log(LogLevel::kError, "port " + std::to_string(hub_.port) +
                              " of 127.0.0.1 is not our hub's any more: nothing is sent there");
    foreign_logged_ = true;
  }
  return true;
}

net::awaitable<beast::error_code> HubConnection::open() {
  for (const std::string& message : opening_()) {
    stream_->text(true);
    const auto [failure, bytes] = co_await stream_->async_write(net::buffer(message), kAwait);
    if (failure) co_return failure;
  }
  open_ = true;
  co_return beast::error_code{};
}

net::awaitable<beast::error_code> HubConnection::read_all() {
  while (true) {
    const auto [failure, bytes] = co_await stream_->async_read(buffer_, kAwait);
    if (failure) {
      buffer_.clear();
      co_return failure;
    }
    const auto data = buffer_.cdata();
    handle({static_cast<const char*>(data.data()), data.size()});
    buffer_.clear();
  }
}

net::awaitable<void> HubConnection::pause() {
  net::steady_timer timer(io_, pause_);
  pause_ = std::min(pause_ * 2, kLongestPause);
  co_await timer.async_wait(kAwait);
}

void HubConnection::handle(std::string_view text) {
  protocol::Message message = protocol::parse_message(text, kLimits);
  if (auto* request = std::get_if<protocol::Request>(&message)) {
    auto body = protocol::parse_trainer_request(request->method, request->params);
    if (body.ok()) {
      channel_.deliver({.id = request->id, .body = std::move(body).value(), .by = controller_});
    } else {
      channel_.refuse(request->id, body.error());
      write();
    }
  } else if (const auto* event = std::get_if<protocol::Notification>(&message)) {
    on_event(*event);
  } else if (const auto* answer = std::get_if<protocol::Answer>(&message)) {
    if (const auto* error = std::get_if<base::Error>(&answer->outcome))
      log(LogLevel::kError, "the hub refused a message: " + base::to_string(*error));
    else if (!greeted_)
      on_welcome();
  }
}

void HubConnection::on_event(const protocol::Notification& event) {
  const auto viewers = protocol::natural(event.params, "count");
  if (event.event == "viewers" && viewers) {
    channel_.set_demand(*viewers, protocol::member(event.params, "wanted") == true,
                        demand_in(event.params));
  } else if (event.event == "control") {
    const auto holder = event.params.find("holder");
    const bool is_held = holder != event.params.end() && holder->is_object();
    controller_ = is_held ? protocol::text_of(*holder, "name") : std::string();
  } else if (event.event == "notice") {
    channel_.add_notice(protocol::text_of(event.params, "message"));
  } else if (event.event == "alarm") {
    log(LogLevel::kError, protocol::text_of(event.params, "message"));
  }
}

void HubConnection::on_welcome() {
  greeted_ = true;
  pause_ = kFirstPause;
  loss_logged_ = false;
  foreign_logged_ = false;
  channel_.set_connected();
  log(LogLevel::kInfo, "connected to the hub");
  write();
}

void HubConnection::wake() { write(); }

void HubConnection::write() {
  if (!open_ || !greeted_ || in_flight_) return;
  write_began_ = Channel::Clock::now();
  in_flight_ = channel_.take();
  if (!in_flight_ && told_bytes_ > 0 && channel_.waiting_bytes() == 0) {
    notify_times(write_began_);  // the last report states that nothing waits
    in_flight_ = channel_.take();
  }
  if (!in_flight_) return;
  stream_->text(in_flight_->text);
  stream_->async_write(net::buffer(in_flight_->bytes),
                       [this](beast::error_code failure, std::size_t) { on_written(failure); });
}

void HubConnection::on_written(beast::error_code failure) {
  if (failure) {
    channel_.give_back(std::move(*in_flight_));
    in_flight_.reset();
    beast::get_lowest_layer(*stream_).close();  // ends the read, and so this connection
    return;
  }
  in_flight_.reset();
  const auto now = Channel::Clock::now();
  send_time_ += now - write_began_;
  if (now - times_told_ >= kTellTimes) notify_times(now);
  channel_.written();
  if (closing_)
    say_goodbye();
  else
    write();
}

void HubConnection::notify_times(Channel::Clock::time_point now) {
  times_told_ = now;
  told_bytes_ = channel_.waiting_bytes();
  channel_.push_text(protocol::encode_notification(
      "link", {{"send_seconds", send_time_.count()}, {"queue_bytes", told_bytes_}}));
}

void HubConnection::close() {
  closing_ = true;
  if (stream_ && !open_)
    beast::get_lowest_layer(*stream_).close();
  else if (stream_ && !in_flight_)
    say_goodbye();
}

void HubConnection::say_goodbye() {
  open_ = false;
  stream_->async_close(websocket::close_code::normal, [](beast::error_code) {});
}

}  // namespace tt::link

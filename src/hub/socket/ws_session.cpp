#include "src/hub/socket/ws_session.h"

#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>
#include <chrono>
#include <exception>
#include <utility>

#include "tensor_tracer/hub/event_log.h"

namespace tt::hub {
namespace {
constexpr std::size_t kMaxViewerMessage = std::size_t{64} << 10U;
constexpr std::size_t kMaxWorkerMessage = std::size_t{256} << 20U;
// Limits one read: a worker that sends without pause must not keep the hub from writing.
constexpr std::size_t kReadAtOnce = std::size_t{256} << 10U;
// A smaller part is copied: a copy is cheaper than one more buffer in the system call.
constexpr std::size_t kWorthNoCopy = std::size_t{8} << 10U;
// If less than this waits for a viewer, and the worker's next message has already arrived, both are
// sent together, after at most kMaxRounds rounds of the I/O context.
constexpr std::size_t kWorthWriting = std::size_t{256} << 10U;
constexpr int kMaxRounds = 128;
constexpr std::size_t kViewerAhead = std::size_t{4} << 10U;
constexpr std::size_t kWorkerAhead = std::size_t{256} << 10U;
constexpr auto kCloseTimeout = std::chrono::seconds(1);

Connections& registry(Context& context, Role role) {
  return role == Role::kViewer ? context.viewers : context.workers;
}

}  // namespace

WsSession::WsSession(tcp::socket socket, Role role, bool may_control, Context& context)
    : Client(role, context.room.make_queue(), may_control),
      stream_(Socket(std::move(socket))),
      context_(context),
      ticket_(registry(context, role).add({})),
      close_timer_(stream_.get_executor()),
      message_(std::make_shared<beast::flat_buffer>()) {}

WsSession::~WsSession() { registry(context_, role()).remove(ticket_); }

void WsSession::start(HttpRequest request) {
  *ticket_ = weak_from_this();
  request_ = std::move(request);
  configure();
  stream_.async_accept(request_, [self = shared_from_this()](beast::error_code failure) {
    self->on_accept(failure);
  });
}

void WsSession::configure() {
  const ServerOptions& options = context_.options;
  stream_.set_option(websocket::stream_base::timeout{.handshake_timeout = options.handshake_timeout,
                                                     .idle_timeout = options.idle_timeout,
                                                     .keep_alive_pings = true});
  stream_.set_option(websocket::stream_base::decorator([](websocket::response_type& response) {
    response.set(http::field::server, "tensor-tracer-hub");
    if (response.result() == http::status::upgrade_required) {
      response.set(http::field::upgrade, "websocket");  // RFC 9110, 15.5.22
    }
  }));
  stream_.auto_fragment(false);
  const std::size_t ahead = role() == Role::kViewer ? kViewerAhead : kWorkerAhead;
  stream_.next_layer().buffer().reserve(ahead);
  stream_.next_layer().capacity(ahead);
  stream_.read_message_max(role() == Role::kViewer ? kMaxViewerMessage : kMaxWorkerMessage);
}

void WsSession::on_accept(beast::error_code failure) {
  if (!failure || failure == websocket::condition::handshake_failed) {
    const auto answered = failure ? http::status::bad_request : http::status::switching_protocols;
    context_.room.metrics().count_http(static_cast<unsigned>(answered));
  }
  if (failure || closing_) {
    kill();
    return;
  }
  open_ = true;
  ++context_.room.metrics().connections;
  context_.host->join(*this, Clock::now(),
                      request_.target().starts_with("/?") || request_.target() == "/");
  read();
  wake();
}

void WsSession::read() {
  stream_.async_read_some(
      *message_, kReadAtOnce,
      [self = shared_from_this()](beast::error_code failure, std::size_t) {
        self->on_read(failure);
      });
}

void WsSession::on_read(beast::error_code failure) {
  if (failure) {
    const LogRank about(context_.room.rank_of(*this));
    if (failure != websocket::error::closed && failure != net::error::operation_aborted)
      spdlog::info("connection_ended: {}", failure.message());
    end();
    return;
  }
  if (!stream_.is_message_done()) {
    message_->reserve(message_->size() + stream_.read_size_hint(*message_));
    read();
    return;
  }
  if (!closing_) handle_message();
  message_->clear();
  context_.input_waits = role() == Role::kWorker && stream_.next_layer().buffer().size() > 0;
  read_on();
}

// Reads after the answer is written: if the next message breaks the protocol, Beast writes only a
// close frame.
void WsSession::read_on() {
  if (!write_posted_) {
    read();
    return;
  }
  net::post(stream_.get_executor(), [self = shared_from_this()] { self->read_on(); });
}

void WsSession::handle_message() {
  const auto data = message_->cdata();
  const std::string_view message(static_cast<const char*>(data.data()), data.size());
  Traffic& traffic = context_.room.metrics().of(role());
  ++traffic.messages_in;
  traffic.bytes_in += message.size();
  const LogRank about(context_.room.rank_of(*this));
  try {
    if (stream_.got_text()) {
      context_.host->on_text(*this, message, Clock::now());
    } else {
      // The room may keep this message, so the next message needs other memory.
      const auto kept = std::exchange(message_, std::make_shared<beast::flat_buffer>());
      context_.host->on_binary(*this, {kept, message, kept->capacity()}, Clock::now());
    }
  } catch (const std::exception& error) {
    // A defect or a lack of memory must end this connection only.
    ++context_.room.metrics().errors;
    spdlog::error("message_failed: {}", error.what());
    close("internal error");
  }
}

void WsSession::wake() {
  // Posted, so that all records of one message of the trainer are sent together.
  if (open_ && !write_posted_ && in_flight_.empty() && !close_sent_) {
    write_posted_ = true;
    post_write(kMaxRounds);
  }
}

void WsSession::tick(Clock::time_point now) {
  const std::uint64_t written = socket().written();
  if (in_flight_.empty() || std::exchange(written_, written) != written) {
    write_moved_ = now;
  } else if (now - write_moved_ > context_.options.idle_timeout && stream_.is_open()) {
    spdlog::info("client_stalled: it takes nothing");
    kill();
  }
  if (socket().drains_too_long(now)) kill();
}

void WsSession::post_write(int rounds) {
  net::post(
      stream_.get_executor(),
      [self = shared_from_this(), rounds] {
        if (rounds > 0 && self->more_will_come()) {
          self->post_write(rounds - 1);
          return;
        }
        self->write_posted_ = false;
        self->write();
      });
}

bool WsSession::more_will_come() { return context_.input_waits && queue().bytes() < kWorthWriting; }

void WsSession::write() {
  if (!open_ || !stream_.is_open() || close_sent_ || !in_flight_.empty()) return;
  if (!closing_ || drain_) in_flight_ = queue().pop();
  if (in_flight_.empty()) {
    if (closing_ && !(drain_ && queue().awaits_text())) send_close();
    return;
  }
  Traffic& traffic = context_.room.metrics().of(role());
  traffic.bytes_out += gather();
  ++traffic.messages_out;
  stream_.text(in_flight_.text);
  stream_.async_write(beast::buffers_range_ref(buffers_),
                      [self = shared_from_this()](beast::error_code failure, std::size_t) {
                        self->on_write(failure);
                      });
}

std::size_t WsSession::gather() {
  const auto is_small = [](const SharedBytes& part) { return part->size() < kWorthNoCopy; };
  std::size_t bytes = 0;
  std::size_t small_bytes = 0;
  for (const SharedBytes& part : in_flight_.parts) {
    bytes += part->size();
    small_bytes += is_small(part) ? part->size() : 0;
  }
  copied_.clear();
  copied_.reserve(small_bytes);  // so that its memory stays where the buffers point
  buffers_.clear();
  bool copied_last = false;
  for (const SharedBytes& part : in_flight_.parts) {
    const bool small = is_small(part);
    const char* const begin = small ? copied_.data() + copied_.size() : part->data();
    if (small) copied_ += *part;
    if (small && copied_last)
      buffers_.back() = {buffers_.back().data(), buffers_.back().size() + part->size()};
    else
      buffers_.emplace_back(begin, part->size());
    copied_last = small;
  }
  return bytes;
}

void WsSession::on_write(beast::error_code failure) {
  in_flight_ = {};
  if (failure) return;  // the pending read ends with an error, too
  if (more_will_come())
    wake();
  else
    write();
}

void WsSession::close(std::string_view reason) {
  drain_ = false;
  if (closing_) return;
  closing_ = true;
  close_reason_ = reason;
  limit_close();
  wake();
}

void WsSession::limit_close() {
  close_timer_.expires_after(kCloseTimeout);
  close_timer_.async_wait(
      [weak = weak_from_this(), written = socket().written()](beast::error_code failure) {
        const auto self = weak.lock();
        if (failure || !self) return;
        if (self->drain_ && self->socket().written() != written)
          self->limit_close();
        else
          self->kill();
      });
}

void WsSession::close_after_sending(std::string_view reason) {
  if (!closing_) {
    close(reason);
    drain_ = true;
  }
}

void WsSession::close_for_violation(std::string_view reason) {
  close_code_ = websocket::close_code::policy_error;
  close(reason);
}

void WsSession::send_close() {
  close_sent_ = true;
  websocket::close_reason reason(close_code_);
  reason.reason.assign(close_reason_.data(), close_reason_.size());
  stream_.async_close(reason, [self = shared_from_this()](beast::error_code) { self->kill(); });
}

void WsSession::kill() {
  beast::error_code ignored;
  socket().close(ignored);
}

void WsSession::end() {
  if (open_) {
    open_ = false;
    context_.host->leave(*this);
  }
  context_.input_waits = false;
  close_timer_.cancel();
  kill();
}

}  // namespace tt::hub

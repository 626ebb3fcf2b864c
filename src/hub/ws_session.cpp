#include "ws_session.h"

#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>
#include <chrono>
#include <exception>
#include <utility>

namespace tt::hub {
namespace {
constexpr std::size_t kMaxViewerMessage = std::size_t{64} << 10U;
constexpr std::size_t kMaxWorkerMessage = std::size_t{256} << 20U;
constexpr std::size_t kWriteBuffer = std::size_t{64} << 10U;
constexpr auto kCloseTimeout = std::chrono::seconds(1);

Connections& registry(Context& context, Role role) {
  return role == Role::kViewer ? context.viewers : context.workers;
}
}  // namespace

WsSession::WsSession(beast::tcp_stream stream, Role role, bool may_control, Context& context)
    : Client(role, context.room.make_queue(), may_control),
      stream_(std::move(stream)),
      context_(context),
      ticket_(registry(context, role).add({})),
      close_timer_(stream_.get_executor()) {}

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
  stream_.write_buffer_bytes(kWriteBuffer);
  stream_.read_message_max(role() == Role::kViewer ? kMaxViewerMessage : kMaxWorkerMessage);
}

void WsSession::on_accept(beast::error_code failure) {
  if (failure || closing_) {
    kill();
    return;
  }
  open_ = true;
  ++context_.room.metrics().connections;
  context_.room.join(*this, Clock::now());
  read();
  wake();
}

void WsSession::read() {
  stream_.async_read(buffer_, [self = shared_from_this()](beast::error_code failure, std::size_t) {
    self->on_read(failure);
  });
}

void WsSession::on_read(beast::error_code failure) {
  if (failure) {
    if (failure != websocket::error::closed && failure != net::error::operation_aborted) {
      spdlog::info("connection_ended: {}", failure.message());
    }
    end();
    return;
  }
  if (!closing_) {
    handle_message();
  }
  buffer_.clear();
  read();
}

void WsSession::handle_message() {
  const auto data = buffer_.cdata();
  const std::string_view message(static_cast<const char*>(data.data()), data.size());
  Traffic& traffic = context_.room.metrics().of(role());
  ++traffic.messages_in;
  traffic.bytes_in += message.size();
  try {
    if (stream_.got_text()) {
      context_.room.on_text(*this, message, Clock::now());
    } else {
      context_.room.on_binary(*this, message, Clock::now());
    }
  } catch (const std::exception& error) {
    // A defect or lack of memory must cost this connection only.
    ++context_.room.metrics().errors;
    spdlog::error("message_failed: {}", error.what());
    close("internal error");
  }
}

void WsSession::wake() {
  // Posted, so that all records of one message of the trainer travel together.
  if (open_ && !write_posted_ && in_flight_.empty() && !close_sent_) {
    write_posted_ = true;
    net::post(stream_.get_executor(), [self = shared_from_this()] {
      self->write_posted_ = false;
      self->write();
    });
  }
}

void WsSession::write() {
  if (!open_ || close_sent_ || !in_flight_.empty()) {
    return;
  }
  if (!closing_ || drain_) {
    in_flight_ = queue().pop();
  }
  if (in_flight_.empty()) {
    if (closing_) {
      send_close();
    }
    return;
  }
  buffers_.clear();
  for (const SharedBytes& part : in_flight_.parts) {
    buffers_.emplace_back(part->data(), part->size());
  }
  stream_.text(in_flight_.text);
  stream_.async_write(buffers_,
                      [self = shared_from_this()](beast::error_code failure, std::size_t bytes) {
                        self->context_.room.metrics().of(self->role()).bytes_out += bytes;
                        self->on_write(failure);
                      });
  ++context_.room.metrics().of(role()).messages_out;
}

void WsSession::on_write(beast::error_code failure) {
  in_flight_ = {};
  if (failure) {
    kill();
    return;
  }
  write();
}

void WsSession::close(std::string_view reason) {
  drain_ = false;
  if (closing_) {
    return;
  }
  closing_ = true;
  close_reason_ = reason;
  close_timer_.expires_after(kCloseTimeout);
  close_timer_.async_wait([weak = weak_from_this()](beast::error_code failure) {
    const auto self = weak.lock();
    if (!failure && self) {
      self->kill();
    }
  });
  wake();
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

void WsSession::kill() { beast::get_lowest_layer(stream_).close(); }

void WsSession::end() {
  if (open_) {
    open_ = false;
    context_.room.leave(*this);
  }
  close_timer_.cancel();
  kill();
}

}  // namespace tt::hub

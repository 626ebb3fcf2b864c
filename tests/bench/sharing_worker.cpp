#include "tests/bench/sharing_worker.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <stdexcept>
#include <utility>

#include "tensor_tracer/protocol/message.h"

namespace tt::bench {

SharingWorker::SharingWorker(const Endpoint& endpoint) : fd_(connect_to(endpoint.port)) {
  unread_ = upgrade(fd_.get(), endpoint);
  auto memory = protocol::SharedWriter::create();
  if (!memory) {
    throw std::runtime_error(base::to_string(memory.error()));
  }
  memory_ = std::move(memory).value();
  const nlohmann::json hello = {{"versions", {1}},
                                {"role", "worker"},
                                {"rank", 0},
                                {"client", "hub_load"},
                                {"run", {{"id", "00000000000000b1"}}},
                                {"shared_memory", memory_->offer()}};
  send_text(fd_.get(), protocol::encode_request(1, "hello", hello));
  std::string_view answer;
  while (!next_text(answer)) {
    receive(true);
  }
  if (answer.find(R"("shared_memory":true)") == std::string_view::npos) {
    throw std::runtime_error("the hub cannot share memory: " + std::string(answer));
  }
}

void SharingWorker::send(std::string_view records, std::size_t message_bytes) {
  std::string places;
  const auto send_places = [&] {
    if (!places.empty()) send_frame(std::exchange(places, {}));
  };
  hear(false);
  for (; !records.empty(); records.remove_prefix(message_bytes)) {
    const std::string_view message = records.substr(0, message_bytes);
    while (!memory_->may_put()) {
      send_places();
      hear(true);
    }
    const bool large = message_bytes >= protocol::kWorthSharing;
    if (const auto placed = large ? memory_->put(message) : std::nullopt) {
      places += *placed;
    } else {
      send_places();
      send_frame(std::string(message));
    }
  }
  send_places();
}

void SharingWorker::receive(bool wait) {
  std::array<char, 4096> buffer{};
  const ssize_t count = ::recv(fd_.get(), buffer.data(), buffer.size(), wait ? 0 : MSG_DONTWAIT);
  if (count == 0 || (count < 0 && errno != EAGAIN)) {
    throw std::runtime_error("the hub ended the connection");
  }
  unread_.append(buffer.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
}

void SharingWorker::hear(bool wait) {
  receive(wait);
  for (std::string_view text; next_text(text);) {
    const protocol::Message message = protocol::parse_message(text, {});
    const auto* event = std::get_if<protocol::Notification>(&message);
    if (event != nullptr && event->event == "taken") {
      memory_->on_taken(event->params.at("bytes").get<std::uint64_t>());
    }
  }
}

// The hub's texts to a worker are short: their frames have two or four bytes of header.
bool SharingWorker::next_text(std::string_view& text) {
  unread_.erase(0, std::exchange(read_, 0));
  constexpr std::size_t kLong = 126;
  const auto byte = [this](std::size_t i) { return static_cast<unsigned char>(unread_[i]); };
  if (unread_.size() < 4) {
    return false;
  }
  const bool is_long = byte(1) == kLong;
  const std::size_t head = is_long ? 4 : 2;
  const std::size_t length = is_long ? byte(2) * 256U + byte(3) : byte(1);
  if (unread_.size() < head + length) {
    return false;
  }
  text = std::string_view(unread_).substr(head, length);
  read_ = head + length;
  return true;
}

void SharingWorker::send_frame(std::string bytes) {
  mask(bytes.data(), bytes.size());
  send_all(fd_.get(), client_frame_header(kBinaryOpcode, bytes.size()) + bytes);
}

}  // namespace tt::bench

#include "tests/bench/decoding_viewer.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>

namespace tt::bench {
namespace {

constexpr std::size_t kReadBytes = std::size_t{256} << 10U;

std::uint64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

struct Frame {
  std::uint8_t opcode = 0;
  std::size_t header = 0;
  std::size_t length = 0;  // of the payload
};

// Nothing while the header is not whole. The hub sends messages as single frames.
bool parse_frame(std::string_view bytes, Frame& frame) {
  const auto byte = [bytes](std::size_t at) { return static_cast<std::uint8_t>(bytes[at]); };
  if (bytes.size() < 2) return false;
  const std::size_t wide = byte(1) == 127 ? 8 : byte(1) == 126 ? 2 : 0;
  if (bytes.size() < 2 + wide) return false;
  frame = {.opcode = static_cast<std::uint8_t>(byte(0) & 0x0FU),
           .header = 2 + wide,
           .length = wide == 0 ? byte(1) : std::size_t{0}};
  for (std::size_t i = 0; i < wide; ++i) frame.length = frame.length << 8U | byte(2 + i);
  return true;
}

// The two dtypes that scripts/bench/stream.py streams.
std::vector<float> decode(const protocol::RecordView& record) {
  const protocol::Dtype dtype = record.header.dtype;
  const bool is_f32 = dtype == protocol::Dtype::kF32;
  if (!is_f32 && dtype != protocol::Dtype::kBf16)
    throw std::runtime_error("a record of another dtype");
  const std::size_t item = is_f32 ? sizeof(float) : sizeof(std::uint16_t);
  std::vector<float> numbers(record.payload.size() / item);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    // A bfloat16 is the upper half of a float32.
    std::uint32_t bits = 0;
    std::memcpy(reinterpret_cast<char*>(&bits) + sizeof(bits) - item,
                record.payload.data() + i * item, item);
    numbers[i] = std::bit_cast<float>(bits);
  }
  return numbers;
}

}  // namespace

DecodingViewer::DecodingViewer(const Endpoint& endpoint) : fd_(connect_to(endpoint.port)) {
  buffer_ = upgrade(fd_.get(), endpoint);
  send_text(fd_.get(), R"({"id":1,"method":"hello","params":{"versions":[1],"role":"viewer",)"
                       R"("client":"trace_load"}})");
}

void DecodingViewer::run() {
  std::printf("ready\n");
  std::fflush(stdout);
  std::array<pollfd, 2> waited = {{{.fd = fd_.get(), .events = POLLIN, .revents = 0},
                                   {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0}}};
  while (true) {
    ::poll(waited.data(), waited.size(), -1);
    if (waited[0].revents != 0) read();
    if (waited[1].revents != 0 && !obey()) return;
  }
}

void DecodingViewer::read() {
  const std::size_t had = buffer_.size();
  buffer_.resize(had + kReadBytes);
  const ssize_t count = ::recv(fd_.get(), buffer_.data() + had, kReadBytes, 0);
  if (count <= 0) throw std::runtime_error("the hub ended the viewer's connection");
  buffer_.resize(had + static_cast<std::size_t>(count));
  while (take_frame()) {
  }
  buffer_.erase(0, taken_);
  taken_ = 0;
}

bool DecodingViewer::take_frame() {
  Frame frame;
  const std::string_view rest = std::string_view(buffer_).substr(taken_);
  if (!parse_frame(rest, frame) || rest.size() < frame.header + frame.length) return false;
  if (frame.opcode == kCloseOpcode) throw std::runtime_error("the hub closed the connection");
  if (frame.opcode == kBinaryOpcode) take_message(rest.substr(frame.header, frame.length));
  taken_ += frame.header + frame.length;
  return true;
}

void DecodingViewer::take_message(std::string_view message) {
  protocol::RecordReader reader(message);
  while (const auto record = reader.next()) take_record(*record);
  if (!reader.status().ok()) throw std::runtime_error(to_string(reader.status().error()));
}

void DecodingViewer::take_record(const protocol::RecordView& record) {
  const std::vector<float> numbers = decode(record);
  const auto wanted = static_cast<float>(record.header.layer);
  if (numbers.empty() || numbers.front() != wanted || numbers.back() != wanted)
    throw std::runtime_error("a record's numbers are not those of its layer");
  ++decoded_.records;
  decoded_.numbers += numbers.size();
  decoded_.bytes += record.whole.size();
  last_sequence_ = std::max(last_sequence_, record.header.sequence);
}

bool DecodingViewer::obey() {
  std::array<char, 64> line{};
  const ssize_t count = ::read(STDIN_FILENO, line.data(), line.size());
  if (std::string_view(line.data(), count > 0 ? static_cast<std::size_t>(count) : 0) == "begin\n") {
    begin_ns_ = now_ns();
    decoded_ = {};
    first_sequence_ = last_sequence_;
    return true;
  }
  std::printf(R"({"seconds":%.6f,"records":%lu,"numbers":%lu,"bytes":%lu,"offered":%lu})"
              "\n",
              static_cast<double>(now_ns() - begin_ns_) * 1e-9, decoded_.records, decoded_.numbers,
              decoded_.bytes, last_sequence_ - first_sequence_);
  return false;
}

}  // namespace tt::bench

#include "tests/bench/cheap_viewers.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

namespace tt::bench {
namespace {

constexpr std::size_t kSequenceOffset = 16;
constexpr std::size_t kPayloadBytesOffset = 88;
constexpr std::size_t kTimeOffset = 96;
constexpr std::size_t kReadBuffer = std::size_t{256} << 10U;
// Discarding in the kernel is cheaper than reading from about here on.
constexpr std::uint64_t kWorthDiscarding = std::uint64_t{16} << 10U;

std::uint64_t now_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

}  // namespace

void FrameParser::feed(std::string_view bytes, Received& received,
                       std::vector<std::uint64_t>& ages) {
  const std::uint64_t now = now_ns();
  while (true) {
    const std::size_t skipped = std::min<std::uint64_t>(skip_, bytes.size());
    skip_ -= skipped;
    bytes.remove_prefix(skipped);
    if (record_open_ && skip_ == 0) {
      record_open_ = false;
      ++received.records;
      received.last_sequence = std::max(received.last_sequence, sequence_);
      ages.push_back(now - std::min(now, time_));
    }
    if (bytes.empty()) return;
    const std::size_t taken = std::min(need_ - have_, bytes.size());
    std::memcpy(header_.data() + have_, bytes.data(), taken);
    have_ += taken;
    bytes.remove_prefix(taken);
    if (have_ == need_) on_header();
  }
}

void FrameParser::on_header() {
  if (in_message_)
    on_record_header();
  else
    on_frame_header();
}

void FrameParser::on_frame_header() {
  const auto byte = [this](std::size_t at) { return static_cast<std::uint8_t>(header_[at]); };
  const std::uint8_t first = byte(1);
  const std::size_t wide = first == 127 ? 8 : first == 126 ? 2 : 0;
  if (have_ < 2 + wide) {
    need_ = 2 + wide;
    return;
  }
  std::uint64_t length = wide == 0 ? first : 0;
  for (std::size_t i = 0; i < wide; ++i) length = length << 8U | byte(2 + i);
  const std::uint8_t opcode = byte(0) & 0x0FU;
  if (opcode == kCloseOpcode) throw std::runtime_error("the hub closed a viewer's connection");
  have_ = 0;
  in_message_ = opcode == kBinaryOpcode && length > 0;
  need_ = in_message_ ? protocol::kRecordHeaderBytes : 2;
  (in_message_ ? message_left_ : skip_) = length;
}

void FrameParser::on_record_header() {
  std::uint32_t magic = 0;
  std::uint64_t payload = 0;
  std::memcpy(&magic, header_.data(), sizeof(magic));
  std::memcpy(&payload, header_.data() + kPayloadBytesOffset, sizeof(payload));
  std::memcpy(&sequence_, header_.data() + kSequenceOffset, sizeof(sequence_));
  std::memcpy(&time_, header_.data() + kTimeOffset, sizeof(time_));
  const std::uint64_t whole = protocol::record_bytes(payload);
  if (magic != protocol::kRecordMagic || whole > message_left_)
    throw std::runtime_error("a binary message is not made of records");
  message_left_ -= whole;
  skip_ = whole - protocol::kRecordHeaderBytes;
  record_open_ = true;
  have_ = 0;
  in_message_ = message_left_ > 0;
  need_ = in_message_ ? protocol::kRecordHeaderBytes : 2;
}

namespace {

struct Viewer {
  base::ScopedFd fd;
  FrameParser parser;
  Received received;
};

class Viewers {
 public:
  Viewers(const Endpoint& endpoint, int count) : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    for (int i = 0; i < count; ++i) {
      viewers_.push_back(open(endpoint));
      watch(viewers_.back()->fd.get(), viewers_.back().get());
    }
    watch(STDIN_FILENO, nullptr);
  }

  void run() {
    std::printf("ready\n");
    std::fflush(stdout);
    std::array<epoll_event, 128> events{};
    while (!ended_) {
      const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), -1);
      for (int i = 0; i < count; ++i) {
        const epoll_event& event = events.at(static_cast<std::size_t>(i));
        if (event.data.ptr == nullptr)
          obey();
        else
          read(*static_cast<Viewer*>(event.data.ptr));
      }
    }
  }

 private:
  std::unique_ptr<Viewer> open(const Endpoint& endpoint) {
    auto viewer = std::make_unique<Viewer>();
    viewer->fd = connect_to(endpoint.port);
    if (endpoint.path.empty()) return viewer;
    const std::string early = upgrade(viewer->fd.get(), endpoint);
    viewer->parser.feed(early, viewer->received, ages_);
    if (!endpoint.token.empty()) {
      send_text(viewer->fd.get(),
                R"({"id":1,"method":"hello","params":{"versions":[1],"role":"viewer",)"
                R"("client":"hub_load"}})");
    }
    return viewer;
  }

  void watch(int fd, Viewer* viewer) {
    epoll_event event{.events = EPOLLIN, .data = {.ptr = viewer}};
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
      throw std::runtime_error("a descriptor cannot be waited for");
  }

  void read(Viewer& viewer) {
    const std::uint64_t skip = viewer.parser.uninteresting();
    const bool discard = skip >= kWorthDiscarding;
    const ssize_t count = ::recv(viewer.fd.get(), buffer_.data(), discard ? skip : buffer_.size(),
                                 MSG_DONTWAIT | (discard ? MSG_TRUNC : 0));
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) throw std::runtime_error("the hub ended a viewer's connection");
    const auto bytes = static_cast<std::size_t>(count);
    viewer.received.bytes += bytes;
    if (discard)
      viewer.parser.skip(bytes);
    else
      viewer.parser.feed({buffer_.data(), bytes}, viewer.received, ages_);
  }

  void obey() {
    std::array<char, 64> line{};
    const ssize_t count = ::read(STDIN_FILENO, line.data(), line.size());
    const std::string_view command(line.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
    if (command == "begin\n") {
      begin_ = now_ns();
      at_begin_ = total();
      ages_.clear();
    } else {
      ended_ = true;
      report();
    }
  }

  Received total() const {
    Received sum;
    for (const auto& viewer : viewers_) {
      sum.bytes += viewer->received.bytes;
      sum.records += viewer->received.records;
      sum.last_sequence += viewer->received.last_sequence;
    }
    return sum;
  }

  void report() {
    const double seconds = static_cast<double>(now_ns() - begin_) * 1e-9;
    const Received end = total();
    std::sort(ages_.begin(), ages_.end());
    const auto percentile = [this](double share) {
      const auto at = static_cast<std::size_t>(share * static_cast<double>(ages_.size()));
      return ages_.empty() ? 0 : static_cast<double>(ages_[std::min(at, ages_.size() - 1)]) * 1e-6;
    };
    std::printf(R"({"seconds":%.6f,"bytes":%lu,"records":%lu,"offered":%lu,"p50_ms":%.3f,)"
                R"("p99_ms":%.3f})"
                "\n",
                seconds, end.bytes - at_begin_.bytes, end.records - at_begin_.records,
                end.last_sequence - at_begin_.last_sequence, percentile(0.5), percentile(0.99));
  }

  base::ScopedFd epoll_;
  std::vector<std::unique_ptr<Viewer>> viewers_;
  std::vector<char> buffer_ = std::vector<char>(kReadBuffer);
  std::vector<std::uint64_t> ages_;
  Received at_begin_;
  std::uint64_t begin_ = 0;
  bool ended_ = false;
};

}  // namespace

void run_viewers(const Endpoint& endpoint, int count) { Viewers(endpoint, count).run(); }

}  // namespace tt::bench

// The cheap ends of the hub's load benchmark; scripts/bench/hub.py starts them.
//
//     hub_load viewers <port> <path or -> <token or -> <count>
//     hub_load worker <port> <path or -> <token or -> <payload bytes> <records in a message>
//                     <messages a second>
//     hub_load send_loop <payload bytes> <viewers>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "tensor_tracer/protocol/crc32c.h"
#include "tests/bench/cheap_viewers.h"
#include "tests/bench/last_word.h"

namespace tt::bench {
namespace {

using Clock = std::chrono::system_clock;
using std::chrono::nanoseconds;

constexpr std::uint32_t kEntries = 8;
constexpr std::uint32_t kLayers = 8;
constexpr std::size_t kChunk = std::size_t{512} << 10U;
constexpr int kSendBuffer = 256 * 1024;  // the hub's
constexpr std::size_t kHeaderCrcOffset = 124;

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  std::uint32_t state = 1;
  for (char& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<char>(state >> 24U);
  }
  return bytes;
}

std::string make_record(std::size_t payload_bytes) {
  protocol::RecordHeader header{.run = 0xB1};
  header.ndim = 1;
  header.shape[0] = static_cast<std::uint32_t>(payload_bytes / sizeof(float));
  const std::string payload = random_bytes(payload_bytes);
  std::string record;
  protocol::append_record(record, header, std::as_bytes(std::span(payload.data(), payload.size())));
  return record;
}

enum class Frame { kClients, kServers };

struct MessageForm {
  std::size_t payload_bytes;
  std::size_t records;  // in a message
  Frame frame;          // a client's is masked
};

// Binary messages, ready to be sent; only headers are written again.
class Messages {
 public:
  Messages(const MessageForm& form, std::size_t count)
      : plain_(make_record(form.payload_bytes)), masked_(form.frame == Frame::kClients) {
    const std::size_t length = plain_.size() * form.records;
    const std::string head = masked_ ? client_frame_header(kBinaryOpcode, length)
                                     : server_frame_header(kBinaryOpcode, length);
    std::string record = plain_;
    mask_if_wanted(record.data(), record.size());
    for (std::size_t i = 0; i < count; ++i) {
      bytes_ += head;
      for (std::size_t j = 0; j < form.records; ++j) {
        records_.push_back(bytes_.size());
        bytes_ += record;
      }
    }
  }

  // The next records, of as many keys as there are entries and layers in turn.
  std::string_view next(Clock::time_point made) {
    for (const std::size_t record : records_) write_header(bytes_.data() + record, made);
    return bytes_;
  }

 private:
  template <typename Number>
  void put(std::size_t offset, Number number) {
    std::memcpy(plain_.data() + offset, &number, sizeof(number));
  }

  void write_header(char* to, Clock::time_point made) {
    const std::uint64_t sequence = ++sequence_;
    const std::uint64_t key = sequence % (std::uint64_t{kEntries} * kLayers);
    put(16, sequence);
    put(24, sequence / (std::uint64_t{kEntries} * kLayers) + 1);
    put(36, static_cast<std::uint32_t>(key / kLayers));
    put(54, static_cast<std::uint16_t>(key % kLayers + 1));
    put(96, static_cast<std::uint64_t>(
                std::chrono::duration_cast<nanoseconds>(made.time_since_epoch()).count()));
    put(kHeaderCrcOffset,
        protocol::crc32c(std::as_bytes(std::span(plain_.data(), kHeaderCrcOffset))));
    std::memcpy(to, plain_.data(), protocol::kRecordHeaderBytes);
    mask_if_wanted(to, protocol::kRecordHeaderBytes);
  }

  void mask_if_wanted(char* bytes, std::size_t count) const {
    if (masked_) mask(bytes, count);
  }

  std::string plain_;
  bool masked_;
  std::string bytes_;
  std::vector<std::size_t> records_;  // where each begins
  std::uint64_t sequence_ = 0;
};

// Calls `send` with the next messages until it is killed; at rate 0 as fast as `send` returns. At a
// fixed rate a record's time is when it was due, so that a hub which blocks its worker cannot hide
// that in the latency.
template <typename Send>
void send_at(double rate, Messages messages, Send send) {
  const bool flood = rate <= 0;
  const nanoseconds interval(flood ? 0 : static_cast<std::int64_t>(1e9 / rate));
  for (auto due = Clock::now();; due += interval) {
    std::this_thread::sleep_until(due);
    send(messages.next(flood ? Clock::now() : due));
  }
}

// Messages that wait for the hub at once; in a flood there are always some.
std::size_t at_once(std::size_t message_bytes, double rate) {
  return rate > 0 ? 1 : std::max<std::size_t>(1, kChunk / message_bytes);
}

void run_worker(const Endpoint& endpoint, std::size_t payload_bytes, std::size_t batch,
                double rate) {
  const base::ScopedFd fd = connect_to(endpoint.port);
  if (!endpoint.path.empty()) upgrade(fd.get(), endpoint);
  if (!endpoint.token.empty()) {
    send_text(fd.get(), R"({"id":1,"method":"hello","params":{"versions":[1],"role":"worker",)"
                        R"("rank":0,"client":"hub_load","run":{"id":"00000000000000b1"}}})");
  }
  const Frame frame = endpoint.path.empty() ? Frame::kServers : Frame::kClients;
  send_at(rate, Messages({payload_bytes, batch, frame}, at_once(payload_bytes * batch, rate)),
          [&fd](std::string_view frames) { send_all(fd.get(), frames); });
}

struct Sink {
  base::ScopedFd fd;
  std::size_t sent = 0;  // of the frame that is under way
};

std::vector<Sink> accept_sinks(const Listener& listener, int count, int epoll) {
  std::vector<Sink> sinks;
  for (int i = 0; i < count; ++i) {
    sinks.push_back({.fd = base::ScopedFd(::accept(listener.fd.get(), nullptr, nullptr))});
    const int fd = sinks.back().fd.get();
    epoll_event event{.events = EPOLLOUT, .data = {.u64 = static_cast<std::uint64_t>(i)}};
    if (fd < 0 || ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof(kSendBuffer)) != 0 ||
        ::fcntl(fd, F_SETFL, O_NONBLOCK) != 0 || ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
      throw std::runtime_error("a viewer cannot be accepted");
  }
  return sinks;
}

// The least that any server can do: send() of the same bytes to whoever takes them. Prints its port
// first and ends when a viewer leaves.
void run_send_loop(std::size_t payload_bytes, int count) {
  const Listener listener = listen_on_any();
  std::printf("%d\n", listener.port);
  std::fflush(stdout);
  const base::ScopedFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  std::vector<Sink> sinks = accept_sinks(listener, count, epoll.get());
  const std::string record = make_record(payload_bytes);
  const std::string frame = server_frame_header(kBinaryOpcode, record.size()) + record;
  std::array<epoll_event, 128> events{};
  while (true) {
    const int ready = ::epoll_wait(epoll.get(), events.data(), events.size(), -1);
    for (int i = 0; i < ready; ++i) {
      Sink& sink = sinks.at(events.at(static_cast<std::size_t>(i)).data.u64);
      const ssize_t sent =
          ::send(sink.fd.get(), frame.data() + sink.sent, frame.size() - sink.sent, MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN) return;
      sink.sent = (sink.sent + static_cast<std::size_t>(std::max<ssize_t>(sent, 0))) % frame.size();
    }
  }
}

std::string unless_dash(const char* argument) {
  return std::string_view(argument) == "-" ? "" : argument;
}

int run(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "viewers" && argc == 6) {
    run_viewers({std::stoi(argv[2]), unless_dash(argv[3]), unless_dash(argv[4])},
                std::stoi(argv[5]));
  } else if (mode == "worker" && argc == 8) {
    const Endpoint endpoint{std::stoi(argv[2]), unless_dash(argv[3]), unless_dash(argv[4])};
    run_worker(endpoint, std::stoul(argv[5]), std::stoul(argv[6]), std::stod(argv[7]));
  } else if (mode == "send_loop" && argc == 4) {
    run_send_loop(std::stoul(argv[2]), std::stoi(argv[3]));
  } else {
    std::fprintf(stderr, "usage: see the first lines of tests/bench/hub_load.cpp\n");
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace tt::bench

int main(int argc, char** argv) {
  return tt::bench::with_last_word("hub_load", tt::bench::run, argc, argv);
}

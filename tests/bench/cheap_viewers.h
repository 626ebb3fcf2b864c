#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tensor_tracer/protocol/record.h"
#include "tests/bench/plain_socket.h"

namespace tt::bench {

/// What one viewer has got so far.
struct Received {
  std::uint64_t bytes = 0;
  std::uint64_t records = 0;
  std::uint64_t last_sequence = 0;
};

/// The WebSocket frames of one connection as they arrive in pieces. Looks at the headers of frames
/// and records only.
class FrameParser {
 public:
  /// Appends the age of every record that these bytes complete to `ages`, in nanoseconds.
  void feed(std::string_view bytes, Received& received, std::vector<std::uint64_t>& ages);
  /// So many of the bytes to come are payload and need not be read, but for the last of them.
  std::uint64_t uninteresting() const { return skip_ > 0 ? skip_ - 1 : 0; }
  void skip(std::uint64_t count) { skip_ -= count; }

 private:
  void on_header();
  void on_frame_header();
  void on_record_header();

  std::array<char, protocol::kRecordHeaderBytes> header_{};
  std::size_t have_ = 0;
  std::size_t need_ = 2;  // of a frame's header at first, or of a record's
  bool in_message_ = false;
  bool record_open_ = false;
  std::uint64_t message_left_ = 0;
  std::uint64_t skip_ = 0;
  std::uint64_t sequence_ = 0;
  std::uint64_t time_ = 0;
};

/// Opens `count` viewers, says "ready" on stdout, counts between the lines "begin" and "end" of
/// stdin, and prints what came in between as one line of JSON. An endpoint with an empty path is
/// no WebSocket server: it sends frames at once. All viewers are one thread.
void run_viewers(const Endpoint& endpoint, int count);

}  // namespace tt::bench

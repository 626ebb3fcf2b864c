#pragma once

#include <cstdint>
#include <string>

#include "tensor_tracer/protocol/record.h"
#include "tests/bench/plain_socket.h"

namespace tt::bench {

/// A viewer that takes everything and makes an array of the numbers of every record, whose
/// payload's checksum it compares. REQUIRES: every number of a record is the number of its layer.
class DecodingViewer {
 public:
  explicit DecodingViewer(const Endpoint& endpoint);

  /// Says "ready" on stdout, counts between the lines "begin" and "end" of stdin, and prints what
  /// came in between as one line of JSON.
  void run();

 private:
  struct Decoded {
    std::uint64_t records = 0;
    std::uint64_t numbers = 0;
    std::uint64_t bytes = 0;  // of whole records
  };

  void read();
  bool take_frame();
  void take_message(std::string_view message);
  void take_record(const protocol::RecordView& record);
  bool obey();

  base::ScopedFd fd_;
  std::string buffer_;
  std::size_t taken_ = 0;  // of the buffer
  Decoded decoded_;
  std::uint64_t first_sequence_ = 0;
  std::uint64_t last_sequence_ = 0;
  std::uint64_t begin_ns_ = 0;
};

}  // namespace tt::bench

#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tensor_tracer/protocol/shared_records.h"
#include "tests/bench/plain_socket.h"

namespace tt::bench {

/// A worker of our hub that leaves large messages in shared memory, as the trainer's link does.
/// Errors are exceptions. Thread: one.
class SharingWorker {
 public:
  /// Connects and says hello.
  explicit SharingWorker(const Endpoint& endpoint);

  /// Sends messages of records, of which each has `message_bytes`; waits while the hub has not
  /// taken what it should have.
  void send(std::string_view records, std::size_t message_bytes);

 private:
  /// Reads what has come, or waits for something.
  void receive(bool wait);
  /// The same, and does what it says.
  void hear(bool wait);
  /// Takes the next whole text off `unread_`.
  bool next_text(std::string_view& text);
  void send_frame(std::string bytes);

  base::ScopedFd fd_;
  std::unique_ptr<protocol::SharedWriter> memory_;
  std::string unread_;
  std::size_t read_ = 0;  // of unread_
};

}  // namespace tt::bench

#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "src/hub/fanout/clock.h"
#include "src/hub/fanout/send_queue.h"

namespace tt::hub {

enum class Role { kViewer, kWorker };

/// One client, in the view of the room. The room fills `queue` and calls wake(). A WebSocket, a
/// replay, and a viewer of another protocol whose messages are translated implement this class.
/// Thread: the hub's I/O thread only. Owner: the connection; it leaves the room before it ends.
class Client {
 public:
  Client(Role role, SendQueue queue, bool may_control = true)
      : role_(role), may_control_(may_control), queue_(std::move(queue)) {}
  virtual ~Client() = default;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Call this when a message may wait in the queue. Never calls back into the room.
  virtual void wake() = 0;
  /// Ends the connection; queued messages are not sent. Never calls back into the room before it
  /// returns.
  virtual void close(std::string_view reason) = 0;
  /// Ends the connection once the queue is empty.
  virtual void close_after_sending(std::string_view reason) = 0;

  /// Called about ten times a second, to end a connection that has timed out. Never calls back into
  /// the room.
  virtual void tick(Clock::time_point /*now*/) {}
  /// Like `close`, and states that the client broke a rule.
  virtual void close_for_violation(std::string_view reason) { close(reason); }

  /// False for a viewer whose messages are translated from another protocol.
  virtual bool is_native() const { return true; }

  /// Sends a text. If the queue is full, ends the connection.
  void send(SharedBytes text) {
    if (queue_.push_text(std::move(text)))
      wake();
    else
      close("too slow");
  }
  void send(std::string text) { send(std::make_shared<const std::string>(std::move(text))); }

  Role role() const { return role_; }
  /// False for a viewer whose token only allows viewing.
  bool may_control() const { return may_control_; }
  SendQueue& queue() { return queue_; }

 private:
  const Role role_;
  const bool may_control_;
  SendQueue queue_;
};

}  // namespace tt::hub

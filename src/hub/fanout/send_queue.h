#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "src/hub/fanout/latest_records.h"
#include "src/hub/fanout/rate_policy.h"
#include "src/hub/fanout/record_queue.h"
#include "src/hub/fanout/subscription.h"
#include "src/hub/fanout/text_queue.h"

namespace tt::hub {

struct SendQueueLimits {
  /// The limit for everything that waits for one client, except the records of the newest message,
  /// which all clients share. Records are dropped to make room for control messages. If control
  /// messages do not fit, the connection ends.
  std::size_t total_bytes = std::size_t{8} << 20U;
  /// While fewer bytes of records wait, no record is replaced. Above this limit only the latest
  /// record of a key is kept.
  std::size_t fresh_bytes = std::size_t{1} << 20U;
  /// Records are sent together up to this size; a larger record is sent alone.
  std::size_t batch_bytes = std::size_t{256} << 10U;
  /// While later messages hold nothing for a client, its newest message stays complete for this
  /// time.
  std::chrono::milliseconds whole_for{5'000};
};

/// One WebSocket message: one text, or the records of one binary message.
struct Outgoing {
  bool text = false;
  std::vector<SharedBytes> parts;
  bool empty() const { return parts.empty(); }
};

/// Makes texts for a client when the client can take them. Thread: the hub's I/O thread only.
class TextSource {
 public:
  virtual ~TextSource() = default;
  /// The next text; nothing: no text is ready.
  virtual std::optional<SharedBytes> next() = 0;
  /// True if the text that comes next is being made.
  virtual bool is_making() const = 0;
};

/// The messages that wait to be written to one client. A client that has read the message before
/// loses nothing of a worker's newest message. Only the rest of earlier messages is cut to the
/// limit. The newest message is cut too, if for some time nothing newer comes for this client.
/// Texts go first; data texts take turns with the records. Drops are counted, and the notification
/// `dropped` reports them to the client. With a window, at most that number of binary messages is
/// sent before the client has acknowledged them; data texts wait for the window too.
/// Thread: the hub's I/O thread only. Owner: `latest` outlives the queue.
class SendQueue {
 public:
  SendQueue(const SendQueueLimits& limits, const LatestRecords& latest)
      : limits_(limits),
        latest_(&latest),
        texts_(limits.fresh_bytes),
        records_(limits.fresh_bytes) {}

  /// False: the text did not fit, and the connection must be closed.
  [[nodiscard]] bool push_text(SharedBytes text);
  /// Queues a text that may be dropped. If everything that waits is above total_bytes, the oldest
  /// such texts are dropped.
  void push_data(const std::string& key, SharedBytes text);
  /// Queues one record of a message that ends with end_message(). If the record must wait for its
  /// rate, only the key is kept. REQUIRES: in this case `latest` gets the record next.
  void push_record(const StoredRecord& record, Clock::time_point now);
  void end_message(Clock::time_point now);
  /// Queues the records whose pause is over. True if there were any.
  bool release_held(Clock::time_point now);
  /// Drops waiting records that are no longer wanted, and offers the latest records of the keys
  /// that are now wanted.
  void subscribe(Subscription wanted);
  const Subscription& subscription() const { return subscription_; }
  /// From now on at most `messages` binary messages are unacknowledged; 0: only the socket limits
  /// them.
  void set_window(std::uint64_t messages) { window_ = messages; }
  /// The client has taken this number of binary messages since it connected. False if the number is
  /// impossible.
  [[nodiscard]] bool acknowledge(std::uint64_t messages);
  std::uint64_t acknowledged() const { return acknowledged_; }
  /// From now on, when nothing else waits, the texts of `source` are sent. `source` outlives the
  /// queue, or is replaced by null.
  void draw_from(TextSource* source) { source_ = source; }
  /// True if a text is being made that will be sent.
  bool awaits_text() const { return source_ != nullptr && source_->is_making(); }
  /// Starts with the latest record of every wanted key. Each record is looked up when its turn
  /// comes.
  void offer_latest();

  /// The next message to write; empty if nothing waits.
  Outgoing pop();

  std::size_t bytes() const { return texts_.text_bytes() + texts_.data_bytes() + records_.bytes(); }
  /// The number of records that this client will never get; data texts are not counted here.
  std::uint64_t dropped() const { return records_.dropped(); }

 private:
  bool window_is_full() const { return window_ > 0 && sent_ - acknowledged_ >= window_; }
  /// False if there is no latest record, or it is not wanted.
  bool queue_latest(const protocol::RecordKey& key);
  void offer(const protocol::RecordKey& key);
  void make_room();
  Outgoing pop_text();
  Outgoing pop_data();
  Outgoing pop_batch();
  Outgoing pop_made();
  void take_offered(Outgoing& batch, std::size_t& size);
  void take_records(Outgoing& batch, std::size_t& size);
  SharedBytes notice_of_drops();

  SendQueueLimits limits_;
  const LatestRecords* latest_;
  Subscription subscription_;
  TextSource* source_ = nullptr;

  TextQueue texts_;
  RecordQueue records_;
  RatePolicy rate_;
  bool data_turn_ = false;  // true after records

  std::deque<protocol::RecordKey> offered_;
  std::unordered_set<protocol::RecordKey> still_offered_;  // keys for which nothing newer was sent

  std::uint64_t window_ = 0;
  std::uint64_t sent_ = 0;  // binary messages
  std::uint64_t acknowledged_ = 0;
};

}  // namespace tt::hub

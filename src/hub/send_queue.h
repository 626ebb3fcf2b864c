#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "src/hub/clock.h"
#include "src/hub/latest_records.h"
#include "tensor_tracer/base/ranges.h"

namespace tt::hub {

struct SendQueueLimits {
  /// All that waits for one client but for the records of the newest message, which all clients
  /// share. Records make room for control messages; control messages that do not fit end the
  /// connection.
  std::size_t total_bytes = std::size_t{8} << 20U;
  /// While fewer bytes of records wait nothing is replaced; above, the latest record of a key wins.
  std::size_t fresh_bytes = std::size_t{1} << 20U;
  /// Records travel together up to this size; a bigger one travels alone.
  std::size_t batch_bytes = std::size_t{256} << 10U;
  /// Messages that hold nothing for a client leave his newest one whole for so long.
  std::chrono::milliseconds whole_for{5'000};
};

/// A viewer's choice: records that fit all members; an empty member fits every record.
struct Subscription {
  std::optional<std::set<std::uint32_t>> entries = {};
  std::optional<std::set<std::uint16_t>> points = {};   // flags
  std::optional<std::vector<base::Range>> layers = {};  // in order, apart from each other
  /// At least so long between two records of one key, the latest wins; 0: every record.
  std::chrono::nanoseconds pause{0};

  bool wants(const StoredRecord& record) const;
};

/// One WebSocket message: one text, or the records of one binary message.
struct Outgoing {
  bool text = false;
  std::vector<SharedBytes> parts;
  bool empty() const { return parts.empty(); }
};

/// A text in place of one whole record.
struct Translation {
  bool later = false;                    // it is not encoded yet: ask again
  std::optional<SharedBytes> text = {};  // nothing: the client does not get that record
};
using RecordTranslator = std::function<Translation(const SharedBytes& record)>;

/// The messages that wait to be written to one client. Records come as messages of a worker, each a
/// whole pass of which nothing is lost to a client that has read the one before: only what is left
/// of earlier messages is cut to the limit, and of one with nothing newer for this client after a
/// while. Texts go first and are never dropped, but for those that are data: they take turns with
/// the records. A replaced record or data text gives its place to the newer one, so that every key
/// gets its turn on a slow connection. Drops are counted and told to the client by a `dropped`
/// notification. With a window, no more binary messages than that are out before the client has
/// acknowledged them, and data texts wait for it too. Thread: the hub's I/O thread only. Owner:
/// `latest` outlives the queue.
class SendQueue {
 public:
  SendQueue(const SendQueueLimits& limits, const LatestRecords& latest)
      : limits_(limits), latest_(&latest) {}

  /// False: it did not fit and the connection must be closed.
  [[nodiscard]] bool push_text(SharedBytes text);
  /// A text that may be dropped: above SendQueueLimits::fresh_bytes of such texts the latest of a
  /// key wins, above total_bytes of all that waits the oldest go.
  void push_data(const std::string& key, SharedBytes text);
  /// One record of a message that ends with end_message(). Of one that must wait for its rate only
  /// the key is kept: REQUIRES that `latest` gets it next.
  void push_record(const StoredRecord& record, Clock::time_point now);
  void end_message(Clock::time_point now);
  /// Queues the records whose pause is over; true if there were any.
  bool release_held(Clock::time_point now);
  /// Drops what waits and is not wanted any more, and offers the latest records of what is wanted
  /// from now on.
  void subscribe(Subscription wanted);
  /// From now on at most `window` binary messages stay unacknowledged; 0: no bound but the
  /// socket's.
  void set_window(std::uint64_t messages) { window_ = messages; }
  /// The client has taken this number of binary messages since it connected; false if it cannot
  /// have.
  [[nodiscard]] bool acknowledge(std::uint64_t messages);
  std::uint64_t acknowledged() const { return acknowledged_; }
  /// From now on every record goes out as its own text, made when its turn comes, and drops
  /// are not told. What comes after a record that is translated later waits, but for texts.
  void translate_records(RecordTranslator translate);
  /// A record's turn has come, and its text is made later.
  bool is_translating() const { return translating_.has_value(); }
  /// Starts with the latest record of every wanted key, looked up when its turn comes.
  void offer_latest();

  /// The next message to write; empty if nothing waits.
  Outgoing pop();

  std::size_t bytes() const { return text_bytes_ + data_bytes_ + record_bytes(); }
  /// Records that this client will never see; data texts are not counted here.
  std::uint64_t dropped() const { return dropped_; }

 private:
  struct Waiting {
    StoredRecord record;
    std::uint64_t message = 0;  // the number of the message that it came in
  };
  using Records = std::list<Waiting>;
  struct DataText {
    std::string key;
    SharedBytes text;
  };
  using DataTexts = std::list<DataText>;

  std::size_t record_bytes() const { return earlier_bytes_ + newest_bytes_ + coming_bytes_; }
  std::size_t& bytes_of(std::uint64_t message);
  bool window_is_full() const { return window_ > 0 && sent_ - acknowledged_ >= window_; }
  bool must_wait(const StoredRecord& record, Clock::time_point now);
  void queue(const StoredRecord& record);
  /// False if no record waits, or it is not wanted.
  bool queue_latest(const protocol::RecordKey& key);
  void begin_message(Clock::time_point now);
  void count_dropped(std::uint32_t entry, std::uint64_t records);
  void offer(const protocol::RecordKey& key);
  void replace(const StoredRecord& record);
  void append(const StoredRecord& record);
  void erase(Records::iterator record);
  void make_room();
  SharedBytes take_oldest_data();
  Outgoing pop_texts();
  Outgoing pop_data();
  Outgoing pop_batch();
  Outgoing pop_translated();
  Outgoing take_batch();
  void pop_latest(Outgoing& batch, std::size_t& size);
  void pop_records(Outgoing& batch, std::size_t& size);

  SendQueueLimits limits_;
  const LatestRecords* latest_;
  Subscription subscription_;
  RecordTranslator translate_;  // none: records go out as they are
  std::optional<SharedBytes> translating_ = {};

  std::deque<SharedBytes> texts_;
  std::size_t text_bytes_ = 0;

  DataTexts data_;
  std::unordered_map<std::string, DataTexts::iterator> newest_data_;  // by key
  std::size_t data_bytes_ = 0;
  bool data_turn_ = false;  // after records

  Records records_;
  std::unordered_map<protocol::RecordKey, std::vector<Records::iterator>> by_key_;
  std::uint64_t newest_ = 0;  // the message that ended last; the next one is coming
  Clock::time_point newest_ended_{};
  std::size_t earlier_bytes_ = 0;  // of what waits, by its message
  std::size_t newest_bytes_ = 0;
  std::size_t coming_bytes_ = 0;

  std::deque<protocol::RecordKey> offered_;
  std::unordered_set<protocol::RecordKey> still_offered_;  // those with nothing newer sent

  // With a pause between records of one key: when the next one may go, and what waits for that.
  std::unordered_map<protocol::RecordKey, Clock::time_point> next_;
  std::unordered_set<protocol::RecordKey> held_;

  std::uint64_t window_ = 0;
  std::uint64_t sent_ = 0;  // binary messages
  std::uint64_t acknowledged_ = 0;

  std::uint64_t dropped_ = 0;
  std::map<std::uint32_t, std::uint64_t> untold_;  // of them, by plan entry
  std::uint64_t untold_data_ = 0;                  // data texts
};

}  // namespace tt::hub

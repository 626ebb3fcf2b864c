#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <unordered_map>
#include <vector>

#include "src/hub/fanout/clock.h"
#include "src/hub/fanout/latest_records.h"

namespace tt::hub {

/// The records that wait for one client; the latest of a key wins. Records come in messages of a
/// worker, each of which is a whole pass. Above a limit only the latest record of a key is kept,
/// and it takes the place of the older one, so that every key gets its turn on a slow connection.
/// Drops are counted by plan entry. Thread: the hub's I/O thread only.
class RecordQueue {
 public:
  /// Up to `fresh_bytes` of waiting records, none is replaced.
  explicit RecordQueue(std::size_t fresh_bytes) : fresh_bytes_(fresh_bytes) {}

  /// Adds a record to the message that is arriving.
  void push(const StoredRecord& record);
  /// Ends the message that is arriving. If it has no record for this client, the message before
  /// counts as an earlier one only after `whole_for`.
  void end_message(Clock::time_point now, std::chrono::milliseconds whole_for);
  /// Ends it only if it has a record. True if it had.
  bool end_message_with_records(Clock::time_point now);

  /// When the newest message ended.
  Clock::time_point newest_ended() const { return newest_ended_; }

  bool empty() const { return records_.empty(); }
  /// REQUIRES: !empty().
  const StoredRecord& front() const { return records_.front().record; }
  void pop_front() { erase(records_.begin()); }
  /// Removes the records that `is_wanted` refuses; these are not drops.
  void keep_only(const std::function<bool(const StoredRecord&)>& is_wanted);
  /// Drops records of messages before the newest one, oldest first, while `is_full`.
  void drop_earlier(const std::function<bool()>& is_full);

  std::size_t bytes() const { return earlier_bytes_ + newest_bytes_ + coming_bytes_; }
  /// The bytes of the records of messages before the newest one.
  std::size_t earlier_bytes() const { return earlier_bytes_; }
  void count_dropped(std::uint32_t entry, std::uint64_t records);
  std::uint64_t dropped() const { return dropped_; }
  bool has_untold() const { return !untold_.empty(); }
  /// The drops since the last call, by plan entry.
  std::map<std::uint32_t, std::uint64_t> take_untold();

 private:
  struct Waiting {
    StoredRecord record;
    std::uint64_t message = 0;  // the number of the message that it was part of
  };
  using Records = std::list<Waiting>;

  std::size_t& bytes_of(std::uint64_t message);
  // Cuts only here: a record that was replaced has kept its turn.
  void begin_message(Clock::time_point now);
  void replace(const StoredRecord& record);
  void append(const StoredRecord& record);
  void erase(Records::iterator record);

  std::size_t fresh_bytes_;
  Records records_;
  std::unordered_map<protocol::RecordKey, std::vector<Records::iterator>> by_key_;
  std::uint64_t newest_ = 0;  // the message that ended last; the next one is arriving
  Clock::time_point newest_ended_{};
  std::size_t earlier_bytes_ = 0;  // waiting bytes, by their message
  std::size_t newest_bytes_ = 0;
  std::size_t coming_bytes_ = 0;
  std::uint64_t dropped_ = 0;
  std::map<std::uint32_t, std::uint64_t> untold_;
};

}  // namespace tt::hub

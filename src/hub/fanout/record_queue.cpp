#include "src/hub/fanout/record_queue.h"

#include <iterator>
#include <utility>

namespace tt::hub {

void RecordQueue::push(const StoredRecord& record) {
  if (bytes() > fresh_bytes_ && by_key_.contains(record.key))
    replace(record);
  else
    append(record);
}

void RecordQueue::end_message(Clock::time_point now, std::chrono::milliseconds whole_for) {
  const bool is_old = newest_bytes_ > 0 && now - newest_ended_ >= whole_for;
  if (coming_bytes_ > 0 || is_old) begin_message(now);
}

bool RecordQueue::end_message_with_records(Clock::time_point now) {
  const bool any = coming_bytes_ > 0;
  if (any) begin_message(now);
  return any;
}

void RecordQueue::begin_message(Clock::time_point now) {
  ++newest_;
  newest_ended_ = now;
  earlier_bytes_ += std::exchange(newest_bytes_, std::exchange(coming_bytes_, 0));
}

std::size_t& RecordQueue::bytes_of(std::uint64_t message) {
  return message > newest_ ? coming_bytes_ : message == newest_ ? newest_bytes_ : earlier_bytes_;
}

void RecordQueue::keep_only(const std::function<bool(const StoredRecord&)>& is_wanted) {
  for (auto record = records_.begin(); record != records_.end();) {
    const auto current = record++;
    if (!is_wanted(current->record)) erase(current);
  }
}

void RecordQueue::drop_earlier(const std::function<bool()>& is_full) {
  for (auto oldest = records_.begin(); earlier_bytes_ > 0 && is_full();) {
    const auto current = oldest++;
    if (current->message < newest_) {
      count_dropped(current->record.key.entry, 1);
      erase(current);
    }
  }
}

void RecordQueue::replace(const StoredRecord& record) {
  std::vector<Records::iterator>& waiting = by_key_.at(record.key);
  count_dropped(record.key.entry, waiting.size());
  for (const Records::iterator old : waiting) {
    bytes_of(old->message) -= old->record.bytes->size();
    if (old != waiting.front()) records_.erase(old);
  }
  waiting.resize(1);
  *waiting.front() = {.record = record, .message = newest_ + 1};
  coming_bytes_ += record.bytes->size();
}

void RecordQueue::append(const StoredRecord& record) {
  records_.push_back({.record = record, .message = newest_ + 1});
  by_key_[record.key].push_back(std::prev(records_.end()));
  coming_bytes_ += record.bytes->size();
}

void RecordQueue::erase(Records::iterator record) {
  const auto entry = by_key_.find(record->record.key);
  std::erase(entry->second, record);
  if (entry->second.empty()) by_key_.erase(entry);
  bytes_of(record->message) -= record->record.bytes->size();
  records_.erase(record);
}

void RecordQueue::count_dropped(std::uint32_t entry, std::uint64_t records) {
  dropped_ += records;
  untold_[entry] += records;
}

std::map<std::uint32_t, std::uint64_t> RecordQueue::take_untold() {
  return std::exchange(untold_, {});
}

}  // namespace tt::hub

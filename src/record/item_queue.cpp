#include "src/record/item_queue.h"

#include <utility>

namespace tt::record {
namespace {
// Steps and audit lines: enough for some hours without an answer from the disk.
constexpr std::size_t kMaxKept = 100'000;

bool must_be_kept(const Item& item) {
  return std::holds_alternative<RunItem>(item) || std::holds_alternative<KeepItem>(item);
}

}  // namespace

void ItemQueue::push(FrameItem frame) {
  bool much = false;
  {
    const std::lock_guard lock(mutex_);
    if (counters_.stopped) {
      ++counters_.dropped;
      return;
    }
    bytes_ += frame.bytes->size();
    frames_.push_back(std::move(frame));
    while (bytes_ > max_bytes_ && frames_.size() > 1) {
      bytes_ -= frames_.front().bytes->size();
      frames_.pop_front();
      ++counters_.dropped;
    }
    much = bytes_ >= transaction_bytes_;
  }
  if (much) wake_.notify_one();
}

void ItemQueue::push(Event event) {
  const std::lock_guard lock(mutex_);
  if (event.bytes == 0) {
    push_other_locked(std::move(event));
    return;
  }
  if (counters_.stopped || event_bytes_ + event.bytes > max_bytes_) {
    ++counters_.dropped_lines;
    return;
  }
  event_bytes_ += event.bytes;
  others_.emplace_back(std::move(event));
}

void ItemQueue::push_other(Item item) {
  const std::lock_guard lock(mutex_);
  push_other_locked(std::move(item));
}

void ItemQueue::push_other_locked(Item item) {
  if (counters_.stopped || (kept_ >= kMaxKept && !must_be_kept(item))) {
    ++counters_.dropped_lines;
    return;
  }
  ++kept_;
  others_.push_back(std::move(item));
}

void ItemQueue::push_query(QueryThread::Query query) {
  {
    const std::lock_guard lock(mutex_);
    if (refuses_queries_) return;
    queries_.push_back(std::move(query));
  }
  wake_.notify_one();
}

std::optional<ItemQueue::Work> ItemQueue::wait(std::chrono::milliseconds interval) {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, interval,
                 [this] { return ending_ || !queries_.empty() || bytes_ >= transaction_bytes_; });
  if (ending_ && frames_.empty() && others_.empty()) return std::nullopt;
  return take_locked();
}

ItemQueue::Work ItemQueue::take_locked() {
  Work work;
  work.queries = std::exchange(queries_, {});
  work.items = std::exchange(others_, {});
  event_bytes_ = 0;
  kept_ = 0;
  while (!frames_.empty() && work.bytes < transaction_bytes_) {
    work.bytes += frames_.front().bytes->size();
    ++work.records;
    work.items.emplace_back(std::move(frames_.front()));
    frames_.pop_front();
  }
  bytes_ -= work.bytes;
  return work;
}

void ItemQueue::written(const Work& work, std::uint64_t left_out, std::uint64_t file_bytes) {
  const std::lock_guard lock(mutex_);
  counters_.records += work.records - left_out;
  counters_.dropped += left_out;
  counters_.bytes += work.bytes;
  counters_.file_bytes = file_bytes;
}

void ItemQueue::lost(const Work& work) {
  const std::lock_guard lock(mutex_);
  counters_.dropped += work.records;
  counters_.dropped_lines += work.items.size() - work.records;
}

bool ItemQueue::stop() {
  const std::lock_guard lock(mutex_);
  counters_.dropped += frames_.size();
  counters_.dropped_lines += others_.size();
  frames_.clear();
  others_.clear();
  bytes_ = event_bytes_ = kept_ = 0;
  return !std::exchange(counters_.stopped, true);
}

void ItemQueue::end() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_one();
}

bool ItemQueue::is_ending() const {
  const std::lock_guard lock(mutex_);
  return ending_;
}

void ItemQueue::refuse_queries() {
  std::vector<QueryThread::Query> let_go;  // destroyed after the lock
  const std::lock_guard lock(mutex_);
  refuses_queries_ = true;
  let_go.swap(queries_);
}

RecorderCounters ItemQueue::counters() const {
  const std::lock_guard lock(mutex_);
  RecorderCounters counters = counters_;
  counters.queue_bytes = bytes_ + event_bytes_;
  return counters;
}

}  // namespace tt::record

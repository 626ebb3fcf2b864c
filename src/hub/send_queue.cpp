#include "src/hub/send_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tensor_tracer/protocol/message.h"

namespace tt::hub {
namespace {

bool lies_in(const std::vector<base::Range>& ranges, std::int64_t number) {
  const auto after = std::ranges::upper_bound(ranges, number, {}, &base::Range::first);
  return after != ranges.begin() && number <= std::prev(after)->second;
}

}  // namespace

bool SendQueue::push_text(SharedBytes text) {
  if (text_bytes_ + text->size() > limits_.total_bytes) {
    return false;
  }
  text_bytes_ += text->size();
  texts_.push_back(std::move(text));
  make_room();
  return true;
}

void SendQueue::push_data(const std::string& key, SharedBytes text) {
  const auto newest = newest_data_.find(key);
  if (data_bytes_ > limits_.fresh_bytes && newest != newest_data_.end()) {
    SharedBytes& waiting = newest->second->text;
    data_bytes_ += text->size();
    data_bytes_ -= waiting->size();
    waiting = std::move(text);
    ++untold_data_;
  } else {
    data_bytes_ += text->size();
    newest_data_[key] = data_.insert(data_.end(), {.key = key, .text = std::move(text)});
  }
  make_room();
}

bool Subscription::wants(const StoredRecord& record) const {
  return (!entries || entries->contains(record.key.entry)) &&
         (!points || points->contains(record.point)) &&
         (!layers || lies_in(*layers, record.key.layer));
}

void SendQueue::push_record(const StoredRecord& record, Clock::time_point now) {
  if (!subscription_.wants(record)) {
    return;
  }
  still_offered_.erase(record.key);
  if (must_wait(record, now)) {
    held_.insert(record.key);
  } else {
    queue(record);
  }
}

bool SendQueue::must_wait(const StoredRecord& record, Clock::time_point now) {
  if (subscription_.pause.count() == 0) {
    return false;
  }
  Clock::time_point& next = next_[record.key];
  if (now < next) {
    return true;
  }
  next = now + subscription_.pause;
  held_.erase(record.key);
  return false;
}

bool SendQueue::release_held(Clock::time_point now) {
  for (auto held = held_.begin(); held != held_.end();) {
    if (now < next_[*held]) {
      ++held;
      continue;
    }
    next_[*held] = now + subscription_.pause;
    if (!queue_latest(*held)) {  // a new plan or too much other data removed it
      count_dropped(held->entry, 1);
    }
    held = held_.erase(held);
  }
  const bool any = coming_bytes_ > 0;
  if (any) {
    begin_message(now);
  }
  return any;
}

bool SendQueue::queue_latest(const protocol::RecordKey& key) {
  const StoredRecord* latest = latest_->find(key);
  const bool is_wanted = latest != nullptr && subscription_.wants(*latest);
  if (is_wanted) {
    queue(*latest);
  }
  return is_wanted;
}

void SendQueue::queue(const StoredRecord& record) {
  if (record_bytes() > limits_.fresh_bytes && by_key_.contains(record.key)) {
    replace(record);
  } else {
    append(record);
  }
}

void SendQueue::end_message(Clock::time_point now) {
  const bool is_old = newest_bytes_ > 0 && now - newest_ended_ >= limits_.whole_for;
  if (coming_bytes_ > 0 || is_old) {
    begin_message(now);
  }
}

// Cuts only here: a record that was replaced has kept its turn.
void SendQueue::begin_message(Clock::time_point now) {
  ++newest_;
  newest_ended_ = now;
  earlier_bytes_ += std::exchange(newest_bytes_, std::exchange(coming_bytes_, 0));
  make_room();
}

std::size_t& SendQueue::bytes_of(std::uint64_t message) {
  return message > newest_ ? coming_bytes_ : message == newest_ ? newest_bytes_ : earlier_bytes_;
}

void SendQueue::subscribe(Subscription wanted) {
  const Subscription before = std::exchange(subscription_, std::move(wanted));
  for (auto record = records_.begin(); record != records_.end();) {
    const auto current = record++;
    if (!subscription_.wants(current->record)) {
      erase(current);
    }
  }
  for (const protocol::RecordKey& key : held_) {
    queue_latest(key);
  }
  if (coming_bytes_ > 0) {
    begin_message(newest_ended_);
  }
  held_.clear();
  next_.clear();
  for (const protocol::RecordKey& key : latest_->keys()) {
    const StoredRecord& record = *latest_->find(key);
    if (subscription_.wants(record) && !before.wants(record)) {
      offer(key);
    }
  }
}

void SendQueue::translate_records(RecordTranslator translate) {
  translate_ = std::move(translate);
  limits_.batch_bytes = 0;  // one record at a time
}

void SendQueue::offer_latest() {
  for (const protocol::RecordKey& key : latest_->keys()) {
    if (subscription_.wants(*latest_->find(key))) {
      offer(key);
    }
  }
}

bool SendQueue::acknowledge(std::uint64_t messages) {
  if (messages > sent_ || messages < acknowledged_) {
    return false;
  }
  acknowledged_ = messages;
  return true;
}

void SendQueue::offer(const protocol::RecordKey& key) {
  if (still_offered_.insert(key).second) {
    offered_.push_back(key);
  }
}

Outgoing SendQueue::pop() {
  if (Outgoing text = pop_texts(); !text.empty()) {
    return text;
  }
  if (window_is_full()) {
    return {};
  }
  Outgoing next = data_turn_ && !data_.empty() ? pop_data() : pop_batch();
  return next.empty() && !data_.empty() ? pop_data() : next;
}

Outgoing SendQueue::pop_data() {
  data_turn_ = false;
  return {.text = true, .parts = {take_oldest_data()}};
}

Outgoing SendQueue::pop_batch() {
  data_turn_ = true;
  if (translate_) {
    return pop_translated();
  }
  Outgoing batch = take_batch();
  sent_ += batch.empty() ? 0 : 1;
  return batch;
}

Outgoing SendQueue::pop_translated() {
  while (true) {
    if (Outgoing one = translating_ ? Outgoing{} : take_batch(); !one.empty()) {
      translating_ = std::move(one.parts.front());
    }
    if (!translating_) {
      return {};
    }
    Translation update = translate_(*translating_);
    if (update.later) {
      return {};
    }
    translating_.reset();
    if (update.text) {
      return {.text = true, .parts = {std::move(*update.text)}};
    }
  }
}

Outgoing SendQueue::take_batch() {
  Outgoing batch;
  std::size_t size = 0;
  pop_latest(batch, size);
  pop_records(batch, size);
  return batch;
}

Outgoing SendQueue::pop_texts() {
  Outgoing out{.text = true, .parts = {}};
  if ((!untold_.empty() || untold_data_ > 0) && !translate_) {
    std::uint64_t fresh = 0;
    nlohmann::json entries = nlohmann::json::object();
    for (const auto& [entry, count] : std::exchange(untold_, {})) {
      fresh += count;
      entries[std::to_string(entry)] = count;
    }
    nlohmann::json params = {
        {"records", fresh}, {"where", "viewer"}, {"entries", std::move(entries)}};
    if (untold_data_ > 0) {
      params["events"] = std::exchange(untold_data_, 0);
    }
    out.parts.push_back(std::make_shared<const std::string>(
        protocol::encode_notification("dropped", std::move(params))));
  } else if (!texts_.empty()) {
    text_bytes_ -= texts_.front()->size();
    out.parts.push_back(std::move(texts_.front()));
    texts_.pop_front();
  }
  return out;
}

void SendQueue::pop_latest(Outgoing& batch, std::size_t& size) {
  while (!offered_.empty()) {
    const protocol::RecordKey key = offered_.front();
    const StoredRecord* record = latest_->find(key);
    const bool useful =
        still_offered_.contains(key) && record != nullptr && subscription_.wants(*record);
    if (useful && !batch.empty() && size + record->bytes->size() > limits_.batch_bytes) {
      return;
    }
    if (useful) {
      size += record->bytes->size();
      batch.parts.push_back(record->bytes);
    }
    still_offered_.erase(key);
    offered_.pop_front();
  }
}

void SendQueue::pop_records(Outgoing& batch, std::size_t& size) {
  if (!offered_.empty()) {
    return;
  }
  while (!records_.empty()) {
    const StoredRecord& front = records_.front().record;
    if (!batch.empty() && size + front.bytes->size() > limits_.batch_bytes) {
      return;
    }
    size += front.bytes->size();
    batch.parts.push_back(front.bytes);
    erase(records_.begin());
  }
}

void SendQueue::replace(const StoredRecord& record) {
  std::vector<Records::iterator>& waiting = by_key_.at(record.key);
  count_dropped(record.key.entry, waiting.size());
  for (const Records::iterator old : waiting) {
    bytes_of(old->message) -= old->record.bytes->size();
    if (old != waiting.front()) {
      records_.erase(old);
    }
  }
  waiting.resize(1);
  *waiting.front() = {.record = record, .message = newest_ + 1};
  coming_bytes_ += record.bytes->size();
}

void SendQueue::count_dropped(std::uint32_t entry, std::uint64_t records) {
  dropped_ += records;
  untold_[entry] += records;
}

void SendQueue::append(const StoredRecord& record) {
  records_.push_back({.record = record, .message = newest_ + 1});
  by_key_[record.key].push_back(std::prev(records_.end()));
  coming_bytes_ += record.bytes->size();
}

void SendQueue::erase(Records::iterator record) {
  const auto entry = by_key_.find(record->record.key);
  std::erase(entry->second, record);
  if (entry->second.empty()) {
    by_key_.erase(entry);
  }
  bytes_of(record->message) -= record->record.bytes->size();
  records_.erase(record);
}

// Keeps the last data text even if it is above the limit: otherwise no viewer would ever get it. Of
// records and data texts, drops from the kind that takes more bytes.
void SendQueue::make_room() {
  auto oldest = records_.begin();
  while (text_bytes_ + data_bytes_ + earlier_bytes_ > limits_.total_bytes &&
         (earlier_bytes_ > 0 || data_.size() > 1)) {
    if (data_.size() > 1 && data_bytes_ > earlier_bytes_) {
      take_oldest_data();
      ++untold_data_;
      continue;
    }
    const auto current = oldest++;
    if (current->message < newest_) {
      count_dropped(current->record.key.entry, 1);
      erase(current);
    }
  }
}

SharedBytes SendQueue::take_oldest_data() {
  const auto oldest = data_.begin();
  const auto newest = newest_data_.find(oldest->key);
  if (newest->second == oldest) {
    newest_data_.erase(newest);
  }
  SharedBytes text = std::move(oldest->text);
  data_bytes_ -= text->size();
  data_.erase(oldest);
  return text;
}

}  // namespace tt::hub

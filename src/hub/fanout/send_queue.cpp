#include "src/hub/fanout/send_queue.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "tensor_tracer/protocol/message.h"

namespace tt::hub {

bool SendQueue::push_text(SharedBytes text) {
  if (texts_.text_bytes() + text->size() > limits_.total_bytes) return false;
  texts_.push(std::move(text));
  make_room();
  return true;
}

void SendQueue::push_data(const std::string& key, SharedBytes text) {
  texts_.push_data(key, std::move(text));
  make_room();
}

void SendQueue::push_record(const StoredRecord& record, Clock::time_point now) {
  if (!subscription_.wants(record)) return;
  still_offered_.erase(record.key);
  if (!rate_.must_wait(record.key, now)) records_.push(record);
}

bool SendQueue::release_held(Clock::time_point now) {
  for (const protocol::RecordKey& key : rate_.take_due(now))
    if (!queue_latest(key))  // a new plan or too much other data removed it
      records_.count_dropped(key.entry, 1);
  const bool any = records_.end_message_with_records(now);
  make_room();
  return any;
}

bool SendQueue::queue_latest(const protocol::RecordKey& key) {
  const StoredRecord* latest = latest_->find(key);
  const bool is_wanted = latest != nullptr && subscription_.wants(*latest);
  if (is_wanted) records_.push(*latest);
  return is_wanted;
}

void SendQueue::end_message(Clock::time_point now) {
  records_.end_message(now, limits_.whole_for);
  make_room();
}

void SendQueue::subscribe(Subscription wanted) {
  const Subscription before = std::exchange(subscription_, std::move(wanted));
  records_.keep_only([this](const StoredRecord& record) { return subscription_.wants(record); });
  for (const protocol::RecordKey& key : rate_.set_pause(subscription_.pause)) queue_latest(key);
  records_.end_message_with_records(records_.newest_ended());
  make_room();
  for (const protocol::RecordKey& key : latest_->keys()) {
    const StoredRecord& record = *latest_->find(key);
    if (subscription_.wants(record) && !before.wants(record)) offer(key);
  }
}

void SendQueue::offer_latest() {
  for (const protocol::RecordKey& key : latest_->keys())
    if (subscription_.wants(*latest_->find(key))) offer(key);
}

bool SendQueue::acknowledge(std::uint64_t messages) {
  if (messages > sent_ || messages < acknowledged_) return false;
  acknowledged_ = messages;
  return true;
}

void SendQueue::offer(const protocol::RecordKey& key) {
  if (still_offered_.insert(key).second) offered_.push_back(key);
}

Outgoing SendQueue::pop() {
  if (Outgoing text = pop_text(); !text.empty()) return text;
  if (window_is_full()) return {};
  Outgoing next = data_turn_ && texts_.has_data() ? pop_data() : pop_batch();
  if (next.empty() && texts_.has_data()) next = pop_data();
  return next.empty() ? pop_made() : next;
}

Outgoing SendQueue::pop_made() {
  std::optional<SharedBytes> text = source_ == nullptr ? std::nullopt : source_->next();
  return text ? Outgoing{.text = true, .parts = {std::move(*text)}} : Outgoing{};
}

Outgoing SendQueue::pop_text() {
  if (records_.has_untold() || texts_.has_dropped())
    return {.text = true, .parts = {notice_of_drops()}};
  return texts_.has_text() ? Outgoing{.text = true, .parts = {texts_.pop()}} : Outgoing{};
}

SharedBytes SendQueue::notice_of_drops() {
  std::uint64_t fresh = 0;
  nlohmann::json entries = nlohmann::json::object();
  for (const auto& [entry, count] : records_.take_untold()) {
    fresh += count;
    entries[std::to_string(entry)] = count;
  }
  nlohmann::json params = {
      {"records", fresh}, {"where", "viewer"}, {"entries", std::move(entries)}};
  if (const std::uint64_t events = texts_.take_dropped(); events > 0) params["events"] = events;
  return std::make_shared<const std::string>(
      protocol::encode_notification("dropped", std::move(params)));
}

Outgoing SendQueue::pop_data() {
  data_turn_ = false;
  return {.text = true, .parts = {texts_.pop_data()}};
}

Outgoing SendQueue::pop_batch() {
  data_turn_ = true;
  Outgoing batch;
  std::size_t size = 0;
  take_offered(batch, size);
  take_records(batch, size);
  sent_ += batch.empty() ? 0 : 1;
  return batch;
}

void SendQueue::take_offered(Outgoing& batch, std::size_t& size) {
  while (!offered_.empty()) {
    const protocol::RecordKey key = offered_.front();
    const StoredRecord* record = latest_->find(key);
    const bool useful =
        still_offered_.contains(key) && record != nullptr && subscription_.wants(*record);
    if (useful && !batch.empty() && size + record->bytes->size() > limits_.batch_bytes) return;
    if (useful) {
      size += record->bytes->size();
      batch.parts.push_back(record->bytes);
    }
    still_offered_.erase(key);
    offered_.pop_front();
  }
}

void SendQueue::take_records(Outgoing& batch, std::size_t& size) {
  if (!offered_.empty()) return;
  while (!records_.empty()) {
    const StoredRecord& front = records_.front();
    if (!batch.empty() && size + front.bytes->size() > limits_.batch_bytes) return;
    size += front.bytes->size();
    batch.parts.push_back(front.bytes);
    records_.pop_front();
  }
}

// Of records and data texts, drops from the kind that takes more bytes.
void SendQueue::make_room() {
  const auto is_full = [this] {
    const std::size_t waiting =
        texts_.text_bytes() + texts_.data_bytes() + records_.earlier_bytes();
    return waiting > limits_.total_bytes;
  };
  const auto texts_take_more = [this] {
    const std::size_t earlier = records_.earlier_bytes();
    return texts_.can_drop() && (earlier == 0 || texts_.data_bytes() > earlier);
  };
  while (is_full() && (records_.earlier_bytes() > 0 || texts_.can_drop()))
    if (texts_take_more())
      texts_.drop_oldest();
    else
      records_.drop_earlier([&] { return is_full() && !texts_take_more(); });
}

}  // namespace tt::hub

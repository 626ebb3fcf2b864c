#include "src/hub/fanout/latest_records.h"

#include <iterator>
#include <utility>

namespace tt::hub {

void LatestRecords::put(StoredRecord record) {
  if (const auto known = by_key_.find(record.key); known != by_key_.end()) erase(known->second);
  bytes_ += record.bytes->size();
  order_.push_back(std::move(record));
  by_key_.emplace(order_.back().key, std::prev(order_.end()));
  while (bytes_ > max_bytes_ && order_.size() > 1) erase(order_.begin());
}

const StoredRecord* LatestRecords::find(const protocol::RecordKey& key) const {
  const auto known = by_key_.find(key);
  return known == by_key_.end() ? nullptr : &*known->second;
}

std::vector<protocol::RecordKey> LatestRecords::keys() const {
  std::vector<protocol::RecordKey> keys;
  keys.reserve(order_.size());
  for (const StoredRecord& record : order_) keys.push_back(record.key);
  return keys;
}

void LatestRecords::forget_plans_before(std::uint32_t plan) {
  for (auto record = order_.begin(); record != order_.end();) {
    const auto current = record++;
    if (current->plan < plan) erase(current);
  }
}

void LatestRecords::clear() {
  order_.clear();
  by_key_.clear();
  bytes_ = 0;
}

void LatestRecords::erase(Order::iterator record) {
  bytes_ -= record->bytes->size();
  by_key_.erase(record->key);
  order_.erase(record);
}

}  // namespace tt::hub

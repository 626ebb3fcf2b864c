#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

#include "tensor_tracer/base/shared_bytes.h"
#include "tensor_tracer/protocol/record.h"

namespace tt::hub {

/// One message or record; all viewers' queues share the same bytes.
using base::SharedBytes;

struct StoredRecord {
  protocol::RecordKey key;
  std::uint32_t plan = 0;
  std::uint16_t point = 0;  // the trace point's flag
  SharedBytes bytes;        // header, payload, padding
};

/// The latest record of every key, so that a viewer that connects late has values immediately. The
/// size is limited; the key that has waited longest for a new value is removed first.
/// Thread: the hub's I/O thread only.
class LatestRecords {
 public:
  explicit LatestRecords(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  void put(StoredRecord record);
  /// Null if there is no such record, or it was removed. Owner: this; valid until the next call
  /// that changes it.
  const StoredRecord* find(const protocol::RecordKey& key) const;
  /// All keys; the key that is unchanged for the longest time is first.
  std::vector<protocol::RecordKey> keys() const;
  /// Removes the records of earlier plans: their entries have another meaning.
  void forget_plans_before(std::uint32_t plan);
  void clear();
  std::size_t bytes() const { return bytes_; }

 private:
  using Order = std::list<StoredRecord>;
  void erase(Order::iterator record);

  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  Order order_;
  std::unordered_map<protocol::RecordKey, Order::iterator> by_key_;
};

}  // namespace tt::hub

#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

#include "tensor_tracer/base/shared_bytes.h"
#include "tensor_tracer/protocol/record.h"

namespace tt::hub {

/// One message or record; every viewer's queue holds the same bytes.
using base::SharedBytes;

struct StoredRecord {
  protocol::RecordKey key;
  std::uint32_t plan = 0;
  std::uint16_t point = 0;  // its flag
  SharedBytes bytes;        // header, payload, padding
};

/// The latest record of every key, so that a late viewer sees something at once. Bounded in bytes;
/// the key that has waited longest for a new value goes first.
/// Thread: the hub's I/O thread only.
class LatestRecords {
 public:
  explicit LatestRecords(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  void put(StoredRecord record);
  /// Null if there is none (any more). Owner: this; ends with the next call that changes it.
  const StoredRecord* find(const protocol::RecordKey& key) const;
  /// All keys, the longest unchanged one first.
  std::vector<protocol::RecordKey> keys() const;
  /// Entries of other plans mean something else.
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

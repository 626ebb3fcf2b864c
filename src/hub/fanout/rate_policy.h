#pragma once

#include <chrono>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "src/hub/fanout/clock.h"
#include "tensor_tracer/protocol/record.h"

namespace tt::hub {

/// The shortest time between two records of one key, and the keys whose latest record waits for it.
/// Thread: the hub's I/O thread only.
class RatePolicy {
 public:
  /// 0: every record may go at once. The keys that wait are returned and forgotten.
  std::vector<protocol::RecordKey> set_pause(std::chrono::nanoseconds pause);

  /// True if a record of this key must wait; the key is then kept. False: it goes now.
  bool must_wait(const protocol::RecordKey& key, Clock::time_point now);
  /// The keys whose pause is over; their latest records go now.
  std::vector<protocol::RecordKey> take_due(Clock::time_point now);

 private:
  std::chrono::nanoseconds pause_{0};
  std::unordered_map<protocol::RecordKey, Clock::time_point> next_;
  std::unordered_set<protocol::RecordKey> waiting_;
};

}  // namespace tt::hub

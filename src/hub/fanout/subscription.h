#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/hub/fanout/latest_records.h"
#include "tensor_tracer/base/ranges.h"
#include "tensor_tracer/base/result.h"
#include "tensor_tracer/protocol/request.h"

namespace tt::hub {

/// An entry of the plan that traces the run's own data.
struct TracedEntry {
  std::uint32_t index = 0;
  std::string point = {};                               // name
  std::optional<std::uint16_t> flag = {};               // of the point; nothing: unknown
  std::optional<std::vector<base::Range>> layers = {};  // nothing: unknown
};

/// A viewer's choice: the records that fit all members. An empty member fits every record.
struct Subscription {
  std::optional<std::set<std::uint32_t>> entries = {};
  std::optional<std::set<std::uint16_t>> points = {};   // flags
  std::optional<std::vector<base::Range>> layers = {};  // in order, not overlapping
  /// The shortest time between two records of one key; the latest record is sent. 0: every record.
  std::chrono::nanoseconds pause{0};

  bool wants(const StoredRecord& record) const;
  /// True if the subscription may want a record of this entry.
  bool may_want(const TracedEntry& entry) const;
};

/// The subscription of a request. `facts` are the run's facts; the request may name their points.
/// Thread: any.
base::Result<Subscription> parse_subscription(const protocol::Subscribe& request,
                                              const nlohmann::json& facts);

/// Returns the trace point with this name in a run's facts, or null if the facts have no such
/// point. Both arguments come from outside and may have any content. Thread: any.
const nlohmann::json& find_point(const nlohmann::json& facts, const nlohmann::json& name);

/// Returns the flag of the trace point with this name in a run's facts. Returns nothing if the
/// facts have no point with this name. Both arguments come from outside and may have any content.
/// Thread: any.
std::optional<std::uint16_t> flag_of_point(const nlohmann::json& facts, const nlohmann::json& name);

}  // namespace tt::hub

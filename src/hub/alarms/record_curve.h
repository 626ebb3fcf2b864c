#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/protocol/record.h"
#include "tensor_tracer/protocol/request.h"

namespace tt::hub {

/// Draws the numbers of an alarm's curve from the records of a plan.
/// Thread: the hub's I/O thread only.
class RecordCurve {
 public:
  /// `facts`: the run's facts with the plan in force. Errors: no such point, or no entry of the
  /// plan takes these records. REQUIRES: check_alarm(alarm).ok() and the alarm has a point.
  static base::Result<RecordCurve> find(const protocol::SetAlarm& alarm,
                                        const nlohmann::json& facts);

  /// The entries of the plan that it draws from.
  std::set<std::uint32_t> entries() const;
  /// Nothing if the record is not of this curve, or is damaged.
  std::optional<double> number_of(const protocol::RecordView& record) const;

 private:
  bool has(const protocol::RecordHeader& header) const;
  base::Status take_entry(const protocol::SetAlarm& alarm, const nlohmann::json& entry,
                          std::uint32_t index);

  std::uint32_t plan_ = 0;
  std::map<std::uint32_t, std::size_t> entries_;  // by index; the vector's place in the entry
  std::optional<std::set<std::uint16_t>> layers_;
  std::optional<std::uint64_t> prompt_set_;  // none: the run's own data
  protocol::RecordPhase phase_ = protocol::RecordPhase::kTrain;
  std::string statistic_;
  bool is_last_token_ = false;
};

}  // namespace tt::hub

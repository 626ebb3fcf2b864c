#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>

#include "src/hub/legacy/dialect.h"
#include "tensor_tracer/protocol/record.h"

namespace tt::hub::dialect {

/// Selects the records of the plan in force that a dialect shows: values of the dialect's points,
/// in training and evaluation. If several entries trace one point, only the first is shown, since
/// an update does not state its entry.
/// Thread: one at a time.
class ShownRecords {
 public:
  void set_plan(const nlohmann::json& plan);
  bool wants(Dialect dialect, const protocol::RecordHeader& header) const;
  /// The same for a whole record.
  bool shows(Dialect dialect, std::string_view record) const;

 private:
  std::optional<std::uint32_t> number_;
  std::array<std::set<std::uint32_t>, 2> entries_;  // by dialect
};

}  // namespace tt::hub::dialect

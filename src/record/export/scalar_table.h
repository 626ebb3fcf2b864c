#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/record/export/series.h"
#include "tensor_tracer/record/recording.h"

namespace tt::record {

/// A run's scalars: one row for each step, one column for each name. Thread: any.
struct ScalarTable {
  std::vector<std::uint64_t> steps;
  std::vector<std::uint64_t> time_ns;
  /// As long as `steps`; nothing where the step has no such scalar.
  std::map<std::string, std::vector<std::optional<double>>> columns;
};

ScalarTable read_scalars(Recording& recording, const Selection& selection);

}  // namespace tt::record

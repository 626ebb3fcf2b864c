#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>

#include "tensor_tracer/record/recording.h"

namespace tt::record {

/// The trace plans that were in force in a run: the one of its facts, and those of its `plan` and
/// `run` events. Thread: any.
class Plans {
 public:
  Plans(Recording& recording, const RunInfo& run);
  /// The compressor of an entry, as the plan says it; empty if the recording does not tell.
  nlohmann::json compressor(std::uint32_t plan, std::uint32_t entry) const;
  /// The token of a row that an entry takes first.
  std::uint64_t first_token(std::uint32_t plan, std::uint32_t entry) const;

 private:
  void add(const nlohmann::json& plan);
  nlohmann::json entry(std::uint32_t plan, std::uint32_t entry) const;

  std::map<std::uint64_t, nlohmann::json> by_number_;
};

}  // namespace tt::record

#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>

#include "src/hub/legacy/dialect.h"

namespace tt::hub::dialect {

/// The most numbers that one update may have. The decimal text of more would keep the hub's thread
/// from other work.
inline constexpr std::uint64_t kMaxNumbers = std::uint64_t{4} << 20U;

/// The native plan (docs/protocol.md, "Trace plan") that a `run_training_step` asks for. Every
/// member is written out as the trainer writes it back, so equal plans are equal JSON. `facts` are
/// the run's facts.
base::Result<nlohmann::json> make_plan(Dialect dialect, const nlohmann::json& message,
                                       const nlohmann::json& facts);

/// A whole number in `facts`, at the path of member names; 0 if it is missing.
std::int64_t fact(const nlohmann::json& facts, std::initializer_list<std::string_view> path);

}  // namespace tt::hub::dialect

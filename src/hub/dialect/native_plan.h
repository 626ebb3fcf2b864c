#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>

#include "src/hub/dialect/dialect.h"

namespace tt::hub::dialect {

/// Numbers that one update may have. Decimal text of more would keep the hub's thread from others.
inline constexpr std::uint64_t kMaxNumbers = std::uint64_t{4} << 20U;

/// The native plan (docs/protocol.md, "Trace plan") that a `run_training_step` asks for, every
/// member written out as the trainer writes it back, so that equal plans are equal JSON. `facts`
/// are the run's.
base::Result<nlohmann::json> make_plan(Dialect dialect, const nlohmann::json& message,
                                       const nlohmann::json& facts);

/// A whole number of `facts`, found by its members' names; 0 where it is missing.
std::int64_t fact(const nlohmann::json& facts, std::initializer_list<std::string_view> path);

}  // namespace tt::hub::dialect

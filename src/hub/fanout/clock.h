#pragma once

#include <chrono>
#include <cstdint>

namespace tt::hub {

using Clock = std::chrono::steady_clock;

/// Nanoseconds since 1970, UTC.
inline std::uint64_t wall_time_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

}  // namespace tt::hub

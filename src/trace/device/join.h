#pragma once

#include <cstddef>
#include <cstdint>

#include "src/trace/device/cells.h"

/// The leader's join of cells, for devices and for the CPU. A Join is the leader's step of a Method
/// whose cells have one value each:
///
///     struct Join {
///       using Value = …;                    // of a reduced cell
///       static constexpr int kThreads = …;  // of a team
///       struct Shared { … };                // the team's memory; not initialized
///       GatheredCells<Value> cells;
///       std::byte* scratch;                 // scratch_bytes() bytes, aligned to 8
///       Number* out;                        // the numbers of the record
///       std::int64_t scratch_bytes() const;
///       // First each of teams() teams does its part, in any order; then one team finishes.
///       std::int64_t teams() const;
///       template <typename Team> void join(Team& team, Shared& shared, std::int64_t index) const;
///       template <typename Team> void finish(Team& team, Shared& shared) const;
///     };
///
/// The rules for teams are those of device/cells.h. So CPU and device get the same bits.
namespace tt::trace::device {

/// The most ranks whose cells a device joins: kernels get GatheredCells by value.
constexpr std::size_t kMaxJoinedRanks = 64;

/// A block of lines or columns: the rank that holds it (0 on the axis that is not sharded), and its
/// index among the blocks of a rank.
struct BlockPlace {
  std::int64_t rank, index;
};

/// The part of one rank.
template <typename Value>
struct RankCells {
  const Value* values = nullptr;
  const std::byte* tail = nullptr;      // null: the rank has no part
  std::int64_t lines = 0, columns = 0;  // blocks, of one batch row
};

/// The cells of a capture, each of which one rank has sent. Units are the blocks of lines of all
/// batch rows.
template <typename Value>
struct GatheredCells {
  const BlockPlace* lines = nullptr;
  const BlockPlace* columns = nullptr;
  std::int64_t rows = 0, line_count = 0, column_count = 0;  // blocks
  std::int64_t rank_count = 0;
  RankCells<Value> ranks[kMaxJoinedRanks] = {};

  TT_BOTH std::int64_t units() const { return rows * line_count; }
  TT_BOTH const Value& at(std::int64_t unit, std::int64_t column) const {
    const BlockPlace line = lines[unit % line_count], along = columns[column];
    const RankCells<Value>& rank = ranks[line.rank + along.rank];
    const std::int64_t row = unit / line_count;
    return rank.values[(row * rank.lines + line.index) * rank.columns + along.index];
  }
};

/// The work of one team in the first step: `first`, and every `step`-th part after it.
template <typename Team, typename Join>
TT_BOTH void join_parts(Team& team, const Join& join, typename Join::Shared& shared,
                        std::int64_t first, std::int64_t step) {
  for (std::int64_t index = first; index < join.teams(); index += step)
    join.join(team, shared, index);
}

/// A team of the CPU: its threads run one after the other.
class SerialTeam {
 public:
  explicit SerialTeam(int size) : size_(size) {}
  template <typename Act>
  void each(const Act& act) {
    for (int thread = 0; thread < size_; ++thread) act(thread);
  }

 private:
  const int size_;
};

/// Joins cells in host memory.
template <typename Join>
void join_on_host(const Join& join) {
  typename Join::Shared shared;
  SerialTeam team(Join::kThreads);
  join_parts(team, join, shared, 0, 1);
  join.finish(team, shared);
}

}  // namespace tt::trace::device

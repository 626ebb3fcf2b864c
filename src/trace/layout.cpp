#include "tensor_tracer/trace/layout.h"

#include <algorithm>

#include "tensor_tracer/base/check.h"

namespace tt::trace {
namespace {

// Appends a piece of `interval.owner` to the layout.
void add_piece(ColumnLayout& layout, const Interval& interval, std::int64_t from, std::int64_t to,
               bool raw, std::int64_t output) {
  const auto rank = static_cast<std::size_t>(interval.owner);
  const std::int64_t numbers = raw ? to - from : 1;
  layout.pieces[rank].push_back({interval.local_begin + from - interval.begin, to - from, raw});
  layout.joins.push_back({rank, layout.values_per_row[rank], numbers, raw, output});
  layout.values_per_row[rank] += numbers;
}

// Adds the parts of tile `tile` = logical columns [begin, end); `at` is the first interval that
// overlaps it.
void add_tile(ColumnLayout& layout, const std::vector<Interval>& intervals, std::size_t at,
              std::int64_t tile, std::int64_t begin, std::int64_t end) {
  const bool whole = end <= intervals[at].end;
  for (; at < intervals.size() && intervals[at].begin < end; ++at) {
    add_piece(layout, intervals[at], std::max(begin, intervals[at].begin),
              std::min(end, intervals[at].end), !whole, tile);
  }
}

}  // namespace

ColumnLayout make_column_layout(const Placement& placement, int ranks, std::int64_t features,
                                std::int64_t tiles) {
  TT_CHECK(tiles <= features, "more tiles than columns");
  const std::vector<Interval> intervals = owned_intervals(placement, ranks, features);
  const auto size = static_cast<std::size_t>(ranks);
  ColumnLayout layout{
      features, tiles, std::vector<std::vector<Piece>>(size), {}, std::vector<std::int64_t>(size)};
  if (tiles == 0) {
    for (const Interval& interval : intervals) {
      add_piece(layout, interval, interval.begin, interval.end, true, interval.begin);
    }
    return layout;
  }
  std::size_t at = 0;
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const std::int64_t begin = tile * features / tiles;
    while (intervals[at].end <= begin) ++at;
    add_tile(layout, intervals, at, tile, begin, (tile + 1) * features / tiles);
  }
  return layout;
}

}  // namespace tt::trace

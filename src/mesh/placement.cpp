#include "tensor_tracer/mesh/placement.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "tensor_tracer/base/check.h"

namespace tt::mesh {
namespace {

std::int64_t chunk_begin(const Segment& segment, int chunk) {
  return segment.size * chunk / segment.chunks;
}

int chunk_of_rank(const Segment& segment, int rank, int ranks) {
  TT_CHECK_EQ(ranks % segment.chunks, 0);
  return rank / (ranks / segment.chunks);
}

// The parts of the segment that belong to a chunk, as [begin, end).
std::vector<std::pair<std::int64_t, std::int64_t>> parts_of(const Segment& segment, int chunk) {
  if (segment.blocks.empty())
    return {{chunk_begin(segment, chunk), chunk_begin(segment, chunk + 1)}};
  const auto size = segment.size / std::ssize(segment.blocks);
  TT_CHECK_EQ(size * std::ssize(segment.blocks), segment.size);
  std::vector<std::pair<std::int64_t, std::int64_t>> parts;
  for (std::int64_t i = 0; i < std::ssize(segment.blocks); ++i)
    if (segment.blocks[static_cast<std::size_t>(i)] == chunk)
      parts.emplace_back(i * size, (i + 1) * size);
  return parts;
}

struct Held {
  Interval interval;
  bool partial = false;
};

// The intervals that a rank holds, in local order.
std::vector<Held> held_by(const Placement& placement, int rank, int ranks) {
  std::vector<Held> held;
  std::int64_t segment_begin = 0;
  std::int64_t local = 0;
  for (const Segment& segment : placement.segments) {
    const int chunk = chunk_of_rank(segment, rank, ranks);
    const int owner = chunk * (ranks / segment.chunks);
    for (const auto& [begin, end] : parts_of(segment, chunk)) {
      held.push_back({{segment_begin + begin, segment_begin + end, owner, local}, segment.partial});
      local += end - begin;
    }
    segment_begin += segment.size;
  }
  return held;
}

}  // namespace

Placement Placement::shard(int dim, std::vector<Segment> segments) {
  return {Kind::kShard, dim, std::move(segments)};
}

std::int64_t Placement::full_size() const {
  std::int64_t size = 0;
  for (const Segment& segment : segments) size += segment.size;
  return size;
}

std::string to_string(const Placement& placement) {
  if (placement.kind == Placement::Kind::kReplicate) return "replicate";
  if (placement.kind == Placement::Kind::kPartial) return "partial(sum)";
  std::ostringstream text;
  text << "shard(" << placement.dim << ")";
  const bool is_plain =
      placement.segments.size() < 2 &&
      std::ranges::all_of(placement.segments, [](const auto& one) { return one.blocks.empty(); });
  if (is_plain) return text.str();
  text << " of segments";
  for (const Segment& segment : placement.segments) {
    text << " " << segment.size << (segment.partial ? " partial(sum)" : "");
    if (!segment.blocks.empty()) text << " in blocks";
    for (const int chunk : segment.blocks) text << " " << chunk;
  }
  return text.str();
}

std::vector<Interval> intervals_of_rank(const Placement& placement, int rank, int ranks) {
  std::vector<Interval> intervals;
  for (const Held& held : held_by(placement, rank, ranks)) intervals.push_back(held.interval);
  return intervals;
}

std::vector<Interval> owned_intervals(const Placement& placement, int ranks, std::int64_t size) {
  if (placement.kind == Placement::Kind::kReplicate) return {{0, size, 0, 0}};
  std::vector<Interval> all;
  if (placement.kind == Placement::Kind::kPartial) {
    for (int rank = 0; rank < ranks; ++rank) all.push_back({0, size, rank, 0});
    return all;
  }
  TT_CHECK_EQ(placement.full_size(), size);
  for (int rank = 0; rank < ranks; ++rank) {
    for (Held& held : held_by(placement, rank, ranks)) {
      Interval& interval = held.interval;
      const bool counts = held.partial || interval.owner == rank;
      if (!counts || interval.begin == interval.end) continue;
      interval.owner = rank;
      all.push_back(interval);
    }
  }
  std::ranges::stable_sort(all, {}, &Interval::begin);
  std::vector<Interval> merged;
  for (const Interval& next : all) {
    const bool continues =
        !merged.empty() && merged.back().owner == next.owner && merged.back().end == next.begin &&
        merged.back().local_begin + (merged.back().end - merged.back().begin) == next.local_begin;
    if (continues)
      merged.back().end = next.end;
    else
      merged.push_back(next);
  }
  return merged;
}

std::int64_t local_size(const Placement& placement, int rank, int ranks) {
  std::int64_t size = 0;
  for (const Interval& interval : intervals_of_rank(placement, rank, ranks))
    size += interval.end - interval.begin;
  return size;
}

}  // namespace tt::mesh

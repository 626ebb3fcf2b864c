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
  if (placement.segments.size() < 2) return text.str();
  text << " of segments";
  for (const Segment& segment : placement.segments)
    text << " " << segment.size << (segment.partial ? " partial(sum)" : "");
  return text.str();
}

std::vector<Interval> intervals_of_rank(const Placement& placement, int rank, int ranks) {
  std::vector<Interval> intervals;
  std::int64_t segment_begin = 0;
  std::int64_t local = 0;
  for (const Segment& segment : placement.segments) {
    const int chunk = chunk_of_rank(segment, rank, ranks);
    const std::int64_t begin = chunk_begin(segment, chunk);
    const std::int64_t end = chunk_begin(segment, chunk + 1);
    const int owner = chunk * (ranks / segment.chunks);
    intervals.push_back({segment_begin + begin, segment_begin + end, owner, local});
    local += end - begin;
    segment_begin += segment.size;
  }
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
    const std::vector<Interval> held = intervals_of_rank(placement, rank, ranks);
    for (std::size_t i = 0; i < held.size(); ++i) {
      Interval interval = held[i];
      const bool counts = placement.segments[i].partial || interval.owner == rank;
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

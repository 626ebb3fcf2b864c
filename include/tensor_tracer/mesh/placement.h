#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tt::mesh {

/// Part of a sharded dim that is sharded by itself, so that fused layouts stay in logical order:
/// queries, keys and values; gate and up. Chunk p of a segment of size s covers
/// [floor(p*s/chunks), floor((p+1)*s/chunks)).
struct Segment {
  std::int64_t size = 0;
  /// Distinct chunks. Equal to the ranks of the axis, or a divisor of them: then neighbouring
  /// ranks hold copies of the same chunk (keys and values with fewer groups than ranks).
  int chunks = 1;
  /// What neighbouring ranks hold of one chunk are partial sums of it, not copies (their
  /// gradients).
  bool partial = false;
};

/// How one tensor lies on one mesh axis, in DTensor's terms.
struct Placement {
  enum class Kind { kReplicate, kShard, kPartial };
  Kind kind = Kind::kReplicate;
  /// kShard: the dim that is sharded, counted from 0.
  int dim = 0;
  /// kShard: the dim's segments in logical order; every rank holds one chunk of each, in order.
  std::vector<Segment> segments;

  static Placement replicate() { return {}; }
  /// Every rank holds a partial sum of the whole.
  static Placement partial() { return {.kind = Kind::kPartial, .dim = 0, .segments = {}}; }
  static Placement shard(int dim, std::vector<Segment> segments);

  bool is_sharded() const { return kind == Kind::kShard; }
  /// kShard: size of the whole dim.
  std::int64_t full_size() const;
};

/// "replicate", "partial(sum)", or "shard(2)" with the segments where there are several.
std::string to_string(const Placement& placement);

/// A run of logical indices that one rank holds next to each other.
struct Interval {
  std::int64_t begin = 0;  // logical
  std::int64_t end = 0;    // logical, not included
  int owner = 0;           // the rank that holds it; of copies the lowest
  std::int64_t local_begin = 0;
};

/// What rank `rank` of `ranks` holds of the sharded dim, in local order.
/// REQUIRES: kShard.
std::vector<Interval> intervals_of_rank(const Placement& placement, int rank, int ranks);

/// Every logical index in logical order, with its owner; neighbours that one owner also holds side
/// by side are merged. A replicated dim of `size` belongs to rank 0. Partial sums appear once for
/// each rank that holds one, next to each other in the order of ranks.
std::vector<Interval> owned_intervals(const Placement& placement, int ranks, std::int64_t size);

/// How many elements of the sharded dim rank `rank` holds.
std::int64_t local_size(const Placement& placement, int rank, int ranks);

}  // namespace tt::mesh

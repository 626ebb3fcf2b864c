#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tt::mesh {

/// A part of a sharded dim that is sharded separately, so that fused layouts stay in logical order:
/// queries, keys and values; gate and up. Chunk p of a segment of size s covers [floor(p*s/chunks),
/// floor((p+1)*s/chunks)).
struct Segment {
  std::int64_t size = 0;
  /// Number of distinct chunks: the number of ranks of the axis, or a divisor of it. With a
  /// divisor, neighbouring ranks hold copies of the same chunk (keys and values with fewer groups
  /// than ranks).
  int chunks = 1;
  /// True: neighbouring ranks hold partial sums of the same chunk, not copies (gradients of keys
  /// and values).
  bool partial = false;
  /// True: ranks that hold copies of a chunk hold copies of its gradient too, not partial sums of
  /// it.
  bool copies_gradient = false;
  /// Not empty: the segment consists of so many blocks of equal size, and blocks[i] is the chunk
  /// that block i belongs to; a rank holds its blocks in logical order. Empty: as above.
  std::vector<int> blocks = {};

  bool operator==(const Segment&) const = default;
};

/// The placement of one tensor on one mesh axis, in DTensor's terms.
struct Placement {
  enum class Kind { kReplicate, kShard, kPartial };
  Kind kind = Kind::kReplicate;
  /// kShard: the sharded dim, counted from 0.
  int dim = 0;
  /// kShard: the dim's segments in logical order. Every rank holds one chunk of each segment, in
  /// this order. Size of a segment with blocks: a multiple of their number.
  std::vector<Segment> segments;

  static Placement replicate() { return {}; }
  /// Every rank holds a partial sum of the whole tensor.
  static Placement partial() { return {.kind = Kind::kPartial, .dim = 0, .segments = {}}; }
  static Placement shard(int dim, std::vector<Segment> segments);

  bool is_sharded() const { return kind == Kind::kShard; }
  /// kShard: size of the whole dim.
  std::int64_t full_size() const;

  bool operator==(const Placement&) const = default;
};

/// "replicate", "partial(sum)", or "shard(2)", followed by the segments if there are several or if
/// one has blocks.
std::string to_string(const Placement& placement);

/// A run of logical indices that are contiguous on one rank.
struct Interval {
  std::int64_t begin = 0;  // logical
  std::int64_t end = 0;    // logical, exclusive
  int owner = 0;           // the rank that holds it; of copies: the lowest
  std::int64_t local_begin = 0;
};

/// The intervals of the sharded dim that rank `rank` of `ranks` holds, in local order. REQUIRES:
/// kShard.
std::vector<Interval> intervals_of_rank(const Placement& placement, int rank, int ranks);

/// All logical indices in logical order, with their owners. Neighbouring intervals that are also
/// neighbours on the same owner are merged. A replicated dim of `size` belongs to rank 0. Partial
/// sums appear once for each rank that holds one, one after another in the order of ranks.
std::vector<Interval> owned_intervals(const Placement& placement, int ranks, std::int64_t size);

/// Number of elements of the sharded dim that rank `rank` holds.
std::int64_t local_size(const Placement& placement, int rank, int ranks);

}  // namespace tt::mesh

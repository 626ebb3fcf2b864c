#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor_tracer/mesh/placement.h"

namespace tt::trace {

/// The part of one block of an axis that one rank holds.
struct Share {
  std::size_t rank = 0;
  std::int64_t offset = 0;  // in the block
  std::int64_t count = 0;
};

/// A run of logical indices that is reduced as one unit. A block is whole if one rank can reduce it
/// alone. Otherwise the ranks send their shares unreduced: the leader joins the shares and reduces
/// the result. Partial sums cover the same indices; the leader adds them.
struct Block {
  std::int64_t begin = 0;  // logical
  std::int64_t count = 0;
  std::vector<Share> shares;  // empty: held by all ranks with part of the other axis
  bool whole() const { return shares.size() <= 1; }
};

/// One rank's share of a block, in the rank's own indices.
struct Chunk {
  std::int64_t begin = 0;        // logical
  std::int64_t local_begin = 0;  // in the rank's tensor
  std::int64_t count = 0;
  bool whole = false;
};

/// How the indices of one axis of a logical tensor are divided into blocks and over ranks.
struct AxisLayout {
  std::vector<Block> blocks;               // in logical order
  std::vector<std::vector<Chunk>> chunks;  // by rank, in logical order
};

/// Makes one block between each two neighbouring boundaries. The boundaries ascend; the first and
/// the last are the ends of the wanted indices.
AxisLayout shard_axis(const std::vector<mesh::Interval>& held, int ranks,
                      const std::vector<std::int64_t>& boundaries);

/// Number of chunks of a sharded dim; 1: Replicate.
int chunks_of(const mesh::Placement& placement);

/// The logical tensor of a capture: `rows` batch rows of `lines` lines (tokens, or heads × tokens)
/// of `features` columns.
struct LogicalShape {
  std::int64_t rows = 1;
  std::int64_t lines = 1;
  std::int64_t features = 1;
  /// The captured lines, [first, last), and their dims: {tokens}, or {heads, tokens}.
  std::int64_t first_line = 0, last_line = 1;
  std::vector<std::int64_t> line_dims;
  /// Shards lines or columns. Dim 1 of `placement` is the lines, dim 2 the columns.
  mesh::Placement placement;
  /// Shards lines beside `placement`, which then shards columns: over groups of neighbouring ranks.
  /// Replicate: `placement` is that of all ranks.
  mesh::Placement contexts = mesh::Placement::replicate();
  int ranks = 1;

  std::int64_t captured_lines() const { return last_line - first_line; }
  /// Number of ranks that `placement` is about.
  int placement_ranks() const { return ranks / chunks_of(contexts); }
  /// [rows, line dims, last].
  std::vector<std::int64_t> result_shape(std::int64_t last) const;
};

/// How the cells (blocks of lines × blocks of columns) of a logical tensor are distributed over the
/// ranks. Immutable. It depends only on its arguments, so every rank computes the same layout.
struct CellLayout {
  std::int64_t rows = 1;
  /// The ranks in the shares of each axis count along this axis. A rank of all is
  /// lines.rank * column_ranks + columns.rank.
  AxisLayout lines;
  AxisLayout columns;
  std::size_t column_ranks = 1;
};

/// `line_block`: number of lines in a block, counted from logical line 0; 1: each line is a block.
/// `column_boundaries` as in shard_axis; empty: only the borders between ranks.
CellLayout make_cell_layout(const LogicalShape& shape, std::int64_t line_block,
                            std::vector<std::int64_t> column_boundaries);

/// Boundaries of `tiles` tiles. Tile t covers columns [floor(t*F/tiles), floor((t+1)*F/tiles)).
std::vector<std::int64_t> tile_boundaries(std::int64_t features, std::int64_t tiles);
/// A boundary after every `width` columns.
std::vector<std::int64_t> even_boundaries(std::int64_t features, std::int64_t width);

}  // namespace tt::trace

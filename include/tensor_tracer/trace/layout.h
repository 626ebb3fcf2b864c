#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor_tracer/mesh/placement.h"

namespace tt::trace {

/// What one rank holds of one block of an axis.
struct Share {
  std::size_t rank = 0;
  std::int64_t offset = 0;  // in the block
  std::int64_t count = 0;
};

/// A run of logical indices that is reduced as one. It is whole where one rank can reduce it alone.
/// Otherwise its shares travel raw: the leader joins them (partial sums, which cover the same
/// indices, are added) and reduces the result.
struct Block {
  std::int64_t begin = 0;  // logical
  std::int64_t count = 0;
  std::vector<Share> shares;  // empty: every rank that has anything of the other axis holds it
  bool whole() const { return shares.size() <= 1; }
};

/// The same block from the side of a rank that holds a share of it.
struct Chunk {
  std::int64_t begin = 0;        // logical
  std::int64_t local_begin = 0;  // in the rank's tensor
  std::int64_t count = 0;
  bool whole = false;
};

/// How the indices of one axis of a logical tensor lie in blocks and on ranks.
struct AxisLayout {
  std::vector<Block> blocks;               // in logical order
  std::vector<std::vector<Chunk>> chunks;  // by rank, in logical order
};

/// One block between two boundaries; they ascend, the first and the last are the ends of the wanted
/// indices.
AxisLayout shard_axis(const std::vector<mesh::Interval>& held, int ranks,
                      const std::vector<std::int64_t>& boundaries);

/// The logical tensor that a capture stands for: `rows` batch rows of `lines` lines (tokens, or
/// heads × tokens) of `features` columns.
struct LogicalShape {
  std::int64_t rows = 1;
  std::int64_t lines = 1;
  std::int64_t features = 1;
  /// The captured lines, [first, last), and their dims: {tokens}, or {heads, tokens}.
  std::int64_t first_line = 0, last_line = 1;
  std::vector<std::int64_t> line_dims;
  /// Of lines or of columns; the dims of `placement` are counted so that 1 is lines, 2 columns.
  mesh::Placement placement;
  int ranks = 1;

  std::int64_t captured_lines() const { return last_line - first_line; }
  /// [rows, line dims, last].
  std::vector<std::int64_t> result_shape(std::int64_t last) const;
};

/// How the cells (blocks of lines × blocks of columns) of a logical tensor lie on the ranks.
/// Immutable; depends on its arguments only, so every rank derives the same.
struct CellLayout {
  std::int64_t rows = 1;
  AxisLayout lines;
  AxisLayout columns;
};

/// `line_block`: lines that are reduced as one, counted from logical line 0; 1: each by itself.
/// `column_boundaries` as in shard_axis; empty: at the borders of ranks only.
CellLayout make_cell_layout(const LogicalShape& shape, std::int64_t line_block,
                            std::vector<std::int64_t> column_boundaries);

/// Boundaries of tiles: tile t of `tiles` covers [floor(t*F/tiles), floor((t+1)*F/tiles)).
std::vector<std::int64_t> tile_boundaries(std::int64_t features, std::int64_t tiles);
/// Boundaries every `width` columns.
std::vector<std::int64_t> even_boundaries(std::int64_t features, std::int64_t width);

}  // namespace tt::trace

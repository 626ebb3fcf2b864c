#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor_tracer/trace/placement.h"

namespace tt::trace {

/// What one rank contributes to one row of one captured tensor: either the mean over columns that
/// it holds alone (a whole tile), or raw columns of a tile that crosses a border, which the leader
/// joins in logical order before it reduces them.
struct Piece {
  std::int64_t local_begin = 0;  // first column in the rank's local tensor
  std::int64_t width = 0;        // columns
  bool raw = false;
};

/// Where the leader finds a piece and what it is for.
struct Join {
  std::size_t rank = 0;
  std::int64_t offset = 0;  // of its first number in the rank's row
  std::int64_t width = 0;   // numbers that travelled: columns if raw, else 1
  bool raw = false;
  std::int64_t output = 0;  // the tile, or with compressor "none" the first logical column
};

/// How the columns of one logical tensor are reduced to tiles across the ranks of one axis.
/// tile t of `tiles` covers logical columns [floor(t*F/tiles), floor((t+1)*F/tiles)).
/// Immutable; depends on (placement, ranks, features, tiles) only, so every rank derives the same.
struct ColumnLayout {
  std::int64_t features = 0;
  std::int64_t tiles = 0;  // 0: no reduction, every column travels
  /// pieces[r]: what rank r sends, in logical order.
  std::vector<std::vector<Piece>> pieces;
  /// Every piece of every rank, in logical order.
  std::vector<Join> joins;

  /// Columns of the result: tiles, or features.
  std::int64_t outputs() const { return tiles == 0 ? features : tiles; }
  /// values_per_row[r]: numbers that rank r sends per row.
  std::vector<std::int64_t> values_per_row;
};

ColumnLayout make_column_layout(const Placement& placement, int ranks, std::int64_t features,
                                std::int64_t tiles);

}  // namespace tt::trace

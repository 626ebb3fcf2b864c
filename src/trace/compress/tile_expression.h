#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tensor_tracer/trace/compressor.h"

/// Tiles reduced by an expression over `data`; docs/expressions.md.
namespace tt::trace {

/// The shape of `data`.
enum class DataDims {
  kLines,  // [rows x lines, tiles, width]
  kRows    // [rows, lines, tiles, width], as Tensor Tracer and MegaScope give it
};

/// How far an expression looks.
enum class Reach {
  kTile,   // its own tile: may run on the shard, on any subset of the tiles
  kLines,  // beyond: gets the whole tensor, on the leader; the result's first dim are the lines of
           // DataDims::kLines
  kTensor  // as kLines, but the result has other dims
};

struct TileExpression {
  std::string text;
  DataDims dims = DataDims::kLines;
  Reach reach = Reach::kTile;
};

/// What an expression over tiles of these boundaries is checked against.
struct ExpressionScope {
  const CompressorContext& context;
  const std::vector<std::int64_t> boundaries;

  std::int64_t features() const { return boundaries.back(); }
  std::int64_t tiles() const { return static_cast<std::int64_t>(boundaries.size()) - 1; }
  /// `data` is float64; else float32, whatever the model computes in.
  bool is_double() const { return context.point.dtype == "float64"; }
};

/// Checks syntax, names, shapes and cost. Errors show line, column and a caret; their `where` is
/// for the caller to put the member's name before. Beyond its own tile an expression needs tiles
/// of equal width.
base::Result<TileExpression> check_expression(const std::string& text, DataDims dims,
                                              const ExpressionScope& scope);

/// REQUIRES: check_expression made `expression` for such boundaries. Throws CheckError where it
/// does not fit this shape or dtype after all.
std::shared_ptr<const Packing> make_expression_packing(const TileExpression& expression,
                                                       const LogicalShape& shape,
                                                       const std::vector<std::int64_t>& boundaries,
                                                       bool is_double);

}  // namespace tt::trace

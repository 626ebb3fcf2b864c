#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tensor_tracer/trace/compressor.h"

/// Tiles that an expression over `data` reduces; see docs/expressions.md.
namespace tt::trace {

/// The shape of `data`.
enum class DataDims {
  kLines,  // [rows x lines, tiles, width]
  kRows    // [rows, lines, tiles, width], the form of Tensor Tracer and MegaScope
};

/// The part of the tensor that an expression reads.
enum class Reach {
  kTile,   // one tile: may run on the shard, on any subset of the tiles
  kLines,  // more: gets the whole tensor, on the leader; the result's first dim is the lines of
           // DataDims::kLines
  kTensor  // as kLines, but the result's first dim is not the lines
};

struct TileExpression {
  std::string text;
  DataDims dims = DataDims::kLines;
  Reach reach = Reach::kTile;
};

/// Facts to check an expression over tiles with these boundaries.
struct ExpressionScope {
  const CompressorContext& context;
  const std::vector<std::int64_t> boundaries;

  std::int64_t features() const { return boundaries.back(); }
  std::int64_t tiles() const { return static_cast<std::int64_t>(boundaries.size()) - 1; }
  /// True: `data` is float64. False: float32, for every other dtype of the model.
  bool is_double() const { return context.point.dtype == "float64"; }
};

/// Checks syntax, names, shapes and cost. Errors show line, column and a caret; the caller puts the
/// member's name before their `where`. An expression that reads more than one tile needs tiles of
/// equal width.
base::Result<TileExpression> check_expression(const std::string& text, DataDims dims,
                                              const ExpressionScope& scope);

/// REQUIRES: check_expression made `expression` for the same kind of boundaries. Throws CheckError
/// if the expression does not fit this shape or dtype.
std::shared_ptr<const Packing> make_expression_packing(const TileExpression& expression,
                                                       const LogicalShape& shape,
                                                       const std::vector<std::int64_t>& boundaries,
                                                       bool is_double);

}  // namespace tt::trace

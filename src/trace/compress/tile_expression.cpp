#include "src/trace/compress/tile_expression.h"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "src/trace/compress/cells.h"
#include "src/trace/compress/kinds.h"
#include "tensor_tracer/base/check.h"
#include "tensor_tracer/eval/program.h"

namespace tt::trace {
namespace {

// Tiles of one width are evaluated in portions of one fixed shape. A multiple of 64 leaves no
// remainder for ATen's scalar loops, whose bits may differ from those of its vector loops.
// eval::Program uses one thread. So a tile's bits do not depend on its position in the portion.
constexpr std::int64_t kPortionStep = 64;
constexpr std::int64_t kPortionNumbers = 32768;
constexpr std::int64_t kMaxTiles = 4096;

at::TensorOptions options_of(bool is_double) {
  return at::device(at::kCPU).dtype(is_double ? at::kDouble : at::kFloat);
}

std::int64_t portion_of(std::int64_t width) {
  const std::int64_t fits = kPortionNumbers / width / kPortionStep * kPortionStep;
  return std::clamp(fits, kPortionStep, kMaxTiles);
}

// Shape of `data` for `rows` rows and `lines` lines (rows × lines of a row).
std::vector<std::int64_t> data_shape(DataDims dims, std::int64_t rows, std::int64_t lines,
                                     std::int64_t tiles, std::int64_t width) {
  if (dims == DataDims::kRows) return {rows, lines / rows, tiles, width};
  return {lines, tiles, width};
}

std::vector<std::int64_t> portion_shape(DataDims dims, std::int64_t width) {
  return data_shape(dims, 1, portion_of(width), 1, width);
}

base::Result<eval::Program> program_for(const std::string& text,
                                        const std::vector<std::int64_t>& shape, bool is_double,
                                        const eval::Limits& limits = {}) {
  return eval::Program::check(text, {{"data", shape, is_double ? at::kDouble : at::kFloat}},
                              limits);
}

// Runs the program. An index that is computed from the data may be out of range; no check before
// the run can find this.
at::Tensor evaluated(const eval::Program& program, const at::Tensor& data) {
  auto result = program.run({data});
  if (!result) {
    throw std::runtime_error(
        "the expression \"" + program.text() +
        "\" failed on this tensor: " + result.error().message +
        "; keep an index between 0 and the dimension's size - 1, for example by "
        "clamp()");
  }
  return std::move(result).value();
}

// True if the program gives one number for each tile.
bool reduces_each_tile(const eval::Program& program, std::int64_t tiles) {
  return program.acts_on_last_dim_only(0) && c10::multiply_integers(program.facts().shape) == tiles;
}

std::set<std::int64_t> widths_of(const std::vector<std::int64_t>& boundaries) {
  std::set<std::int64_t> widths;
  for (std::size_t i = 0; i + 1 < boundaries.size(); ++i)
    widths.insert(boundaries[i + 1] - boundaries[i]);
  return widths;
}

// Collects tiles until there is a full portion of their width.
template <typename Number>
class PortionKernel {
 public:
  PortionKernel(const std::map<std::int64_t, eval::Program>& programs, DataDims dims)
      : programs_(programs), dims_(dims) {}

  void reduce(const Cell<Number>& cell, Number* out) {
    Portion& portion = portions_[cell.width];
    if (!portion.tiles.defined()) {
      portion.tiles =
          at::zeros(portion_shape(dims_, cell.width), options_of(sizeof(Number) == sizeof(double)));
    }
    auto* tiles = portion.tiles.template mutable_data_ptr<Number>();
    std::copy_n(cell.data, cell.width,
                tiles + static_cast<std::int64_t>(portion.outs.size()) * cell.width);
    portion.outs.push_back(out);
    if (static_cast<std::int64_t>(portion.outs.size()) == portion_of(cell.width))
      evaluate(cell.width, portion);
  }

  /// Evaluates the remaining tiles. The pointers to the results must stay valid until then.
  void finish(std::byte* /*tail*/) {
    for (auto& [width, portion] : portions_)
      if (!portion.outs.empty()) evaluate(width, portion);
  }

 private:
  struct Portion {
    at::Tensor tiles;
    std::vector<Number*> outs;
  };

  void evaluate(std::int64_t width, Portion& portion) {
    const at::Tensor values = evaluated(programs_.at(width), portion.tiles)
                                  .to(c10::CppTypeToScalarType<Number>::value)
                                  .contiguous();
    const auto* value = values.template const_data_ptr<Number>();
    for (Number* out : portion.outs) *out = *value++;
    portion.outs.clear();
  }

  const std::map<std::int64_t, eval::Program>& programs_;
  const DataDims dims_;
  std::map<std::int64_t, Portion> portions_;
};

template <typename Number_>
struct ExpressionMethod : CellMethod {
  using Number = Number_;
  using Value = Number_;
  static constexpr std::string_view kCompressor = "tile";
  std::map<std::int64_t, eval::Program> programs;  // by width
  DataDims dims;

  std::int64_t values(std::int64_t /*width*/) const { return 1; }
  PortionKernel<Number> kernel(const CaptureFacts& /*facts*/) const { return {programs, dims}; }
};

// The ranks send every column; the leader evaluates the expression.
class TensorExpressionPacking : public Packing {
 public:
  TensorExpressionPacking(std::shared_ptr<const Packing> columns, eval::Program program,
                          std::vector<std::int64_t> data_shape,
                          std::vector<std::int64_t> result_shape, bool is_double)
      : columns_(std::move(columns)),
        program_(std::move(program)),
        data_shape_(std::move(data_shape)),
        shape_(std::move(result_shape)),
        options_(options_of(is_double)) {}

  std::size_t part_bytes(std::size_t rank) const override { return columns_->part_bytes(rank); }
  std::vector<std::int64_t> shape() const override { return shape_; }
  const PackKernels& kernels() const override { return columns_->kernels(); }
  void join(const CaptureFacts& facts, const std::vector<const std::byte*>& parts,
            std::byte* out) const override {
    const at::Tensor data = at::empty(data_shape_, options_);
    columns_->join(facts, parts, static_cast<std::byte*>(data.mutable_data_ptr()));
    const at::Tensor numbers = evaluated(program_, data).to(options_).contiguous();
    std::memcpy(out, numbers.const_data_ptr(), numbers.nbytes());
  }

 private:
  const std::shared_ptr<const Packing> columns_;
  const eval::Program program_;
  const std::vector<std::int64_t> data_shape_, shape_;
  const at::TensorOptions options_;
};

eval::Program required(base::Result<eval::Program> program) {
  TT_CHECK(program.ok(), program.error().message);
  return std::move(program).value();
}

std::shared_ptr<const Packing> whole_packing(const TileExpression& expression,
                                             const LogicalShape& shape, std::int64_t tiles,
                                             bool is_double) {
  const std::int64_t lines = shape.rows * shape.captured_lines();
  TT_CHECK(shape.features % tiles == 0, std::to_string(tiles) + " tiles do not divide " +
                                            std::to_string(shape.features) + " features");
  const std::vector<std::int64_t> data =
      data_shape(expression.dims, shape.rows, lines, tiles, shape.features / tiles);
  eval::Program program = required(program_for(expression.text, data, is_double));
  std::vector<std::int64_t> result = program.facts().shape;
  if (expression.reach == Reach::kLines) {
    TT_CHECK(!result.empty() && result.front() == lines, "checked when the plan was taken");
    result.erase(result.begin());
    result.insert(result.begin(), shape.line_dims.begin(), shape.line_dims.end());
    result.insert(result.begin(), shape.rows);
  }
  TT_CHECK(result.size() <= protocol::kRecordMaxDims, "checked when the plan was taken");
  return std::make_shared<TensorExpressionPacking>(
      make_copy_packing(shape, is_double), std::move(program), data, std::move(result), is_double);
}

// The program for the whole tensor of a capture.
base::Result<eval::Program> whole_program(const std::string& text, DataDims dims,
                                          const ExpressionScope& scope, const CaptureSize& size) {
  const std::int64_t width = scope.features() / scope.tiles();
  return program_for(text, data_shape(dims, size.rows, size.lines, scope.tiles(), width),
                     scope.is_double(), scope.context.limits);
}

// True if the first dim of the result is the lines: with another number of lines it changes to that
// number.
bool follows_lines(const std::string& text, const ExpressionScope& scope,
                   const std::vector<std::int64_t>& result) {
  const std::int64_t most = scope.context.largest.lines;
  if (result.empty() || result.front() != most) return false;
  const std::int64_t lines = most > 1 ? most - 1 : 2;
  const auto other = program_for(text, {lines, scope.tiles(), scope.features() / scope.tiles()},
                                 scope.is_double());
  return other.ok() && !other.value().facts().shape.empty() &&
         other.value().facts().shape.front() == lines;
}

base::Status check_dims(const std::vector<std::int64_t>& result, Reach reach,
                        const ExpressionScope& scope) {
  const std::size_t dims =
      result.size() + (reach == Reach::kLines ? scope.context.point.dims.size() - 2 : 0);
  if (dims <= protocol::kRecordMaxDims) return {};
  return base::Error{"invalid_expression",
                     "its result has " + std::to_string(dims) + " dims, a record has " +
                         std::to_string(protocol::kRecordMaxDims) + " at most",
                     "", "flatten or reduce it"};
}

// Finds the reach of an expression that gets the whole tensor. The expression must fit the smallest
// and the largest capture.
base::Result<TileExpression> check_whole(const std::string& text, DataDims dims,
                                         const ExpressionScope& scope) {
  const auto program = whole_program(text, dims, scope, scope.context.largest);
  if (!program) return program.error();
  if (scope.context.smallest.lines != scope.context.largest.lines) {
    const auto least = whole_program(text, dims, scope, scope.context.smallest);
    if (!least) return least.error();
  }
  const std::vector<std::int64_t>& result = program.value().facts().shape;
  const bool has_lines = dims == DataDims::kLines && follows_lines(text, scope, result);
  const Reach reach = has_lines ? Reach::kLines : Reach::kTensor;
  if (auto status = check_dims(result, reach, scope); !status) return status.error();
  if (scope.features() % scope.tiles() == 0) return TileExpression{text, dims, reach};
  return base::Error{"invalid_expression",
                     "looks beyond its own tile, so it gets the whole tensor and needs tiles of "
                     "equal width; " +
                         std::to_string(scope.tiles()) + " tiles do not divide " +
                         std::to_string(scope.features()) + " features",
                     "", "choose a number of tiles that divides them"};
}

}  // namespace

base::Result<TileExpression> check_expression(const std::string& text, DataDims dims,
                                              const ExpressionScope& scope) {
  double cost = 0;
  bool each_tile = true;
  for (const std::int64_t width : widths_of(scope.boundaries)) {
    const std::int64_t portion = portion_of(width);
    auto program =
        program_for(text, portion_shape(dims, width), scope.is_double(), scope.context.limits);
    if (!program) {
      each_tile = false;
      break;
    }
    each_tile = each_tile && reduces_each_tile(program.value(), portion);
    cost = std::max(cost, program.value().facts().cost / static_cast<double>(portion));
  }
  if (each_tile) {
    cost *= static_cast<double>(scope.context.largest.lines * scope.tiles());
    if (cost <= scope.context.limits.max_cost) return TileExpression{text, dims, Reach::kTile};
    return base::Error{"invalid_expression",
                       "costs about " + std::to_string(static_cast<std::int64_t>(cost)) +
                           " element operations for each capture, more than " +
                           std::to_string(static_cast<std::int64_t>(scope.context.limits.max_cost)),
                       "", "take fewer rows, tokens or tiles, or a simpler expression"};
  }
  // check_whole reports errors in the text before errors in the number of tiles.
  return check_whole(text, dims, scope);
}

std::shared_ptr<const Packing> make_expression_packing(const TileExpression& expression,
                                                       const LogicalShape& shape,
                                                       const std::vector<std::int64_t>& boundaries,
                                                       bool is_double) {
  const DataDims dims = expression.dims;
  if (expression.reach != Reach::kTile) {
    const auto tiles = static_cast<std::int64_t>(boundaries.size()) - 1;
    return whole_packing(expression, shape, tiles, is_double);
  }
  std::map<std::int64_t, eval::Program> programs;
  for (const std::int64_t width : widths_of(boundaries)) {
    eval::Program program =
        required(program_for(expression.text, portion_shape(dims, width), is_double));
    TT_CHECK(reduces_each_tile(program, portion_of(width)),
             "it does not give one number for a tile of " + std::to_string(width));
    programs.emplace(width, std::move(program));
  }
  return make_cell_packing<ExpressionMethod>(
      is_double, shape, make_cell_layout(shape, 1, boundaries),
      shape.result_shape(static_cast<std::int64_t>(boundaries.size()) - 1), programs, dims);
}

}  // namespace tt::trace

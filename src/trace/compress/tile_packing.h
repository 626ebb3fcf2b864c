#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "src/trace/compress/cells.h"
#include "tensor_tracer/trace/reductions.h"

namespace tt::trace {

/// Reductions of the numbers of one tile to one.
enum class TileMethod { kMean, kSum, kAbsoluteMax };

template <typename Number_, TileMethod method>
struct TileKernel {
  using Number = Number_;
  using Value = Number_;
  static constexpr bool kPerLine = true;
  std::int64_t values(std::int64_t /*width*/) const { return 1; }

  void reduce(const Cell<Number>& cell, Value* out) const {
    if constexpr (method == TileMethod::kAbsoluteMax) {
      *out = absolute_max(cell.data, cell.width);
    } else {
      *out = fixed_order_sum(cell.data, cell.width);
      if constexpr (method == TileMethod::kMean) *out /= static_cast<Number>(cell.width);
    }
  }

  void reduce_neighbours(const Cell<Number>& all, const Number* readable_end,
                         std::span<const std::int32_t> widths, Value* out) const
      requires(method != TileMethod::kAbsoluteMax) {
    fixed_order_sums(all.data, readable_end, widths.data(),
                     static_cast<std::int64_t>(widths.size()), out);
    if constexpr (method == TileMethod::kMean) {
      for (std::size_t i = 0; i < widths.size(); ++i) out[i] /= static_cast<Number>(widths[i]);
    }
  }
};

/// One number for each tile of each line.
template <typename Number, TileMethod method>
class TilePacking : public CellPacking<TileKernel<Number, method>> {
 public:
  TilePacking(const LogicalShape& shape, const std::vector<std::int64_t>& boundaries)
      : CellPacking<Kernel>(make_cell_layout(shape, 1, boundaries),
                            shape.result_shape(static_cast<std::int64_t>(boundaries.size()) - 1),
                            {}),
        lines_(shape.wanted_lines()),
        tiles_(static_cast<std::int64_t>(boundaries.size()) - 1) {}

  void pack(int /*layer*/, std::size_t rank, const LocalTensor& local,
            std::byte* part) const override {
    Kernel kernel;
    this->pack_with(kernel, rank, local, part);
  }
  void join(int /*layer*/, const std::vector<const std::byte*>& parts,
            std::byte* out) const override {
    Kernel kernel;
    this->join_with(kernel, parts, [&](const CellPlace& at) {
      return reinterpret_cast<Number*>(out) + (at.row * lines_ + at.line) * tiles_ +
             static_cast<std::int64_t>(at.column);
    });
  }

 private:
  using Kernel = TileKernel<Number, method>;
  const std::int64_t lines_, tiles_;
};

}  // namespace tt::trace

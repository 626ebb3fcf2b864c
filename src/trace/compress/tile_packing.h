#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "src/trace/compress/cells.h"
#include "tensor_tracer/trace/reductions.h"

namespace tt::trace {

/// Reductions of the numbers of one tile to one.
struct MeanOf {
  template <typename Number>
  Number operator()(const Number* values, std::int64_t n) const {
    return fixed_order_sum(values, n) / static_cast<Number>(n);
  }
};
struct SumOf {
  template <typename Number>
  Number operator()(const Number* values, std::int64_t n) const {
    return fixed_order_sum(values, n);
  }
};
struct AbsoluteMaxOf {
  template <typename Number>
  Number operator()(const Number* values, std::int64_t n) const {
    return absolute_max(values, n);
  }
};

template <typename Number_, typename Reduce>
struct TileKernel {
  using Number = Number_;
  using Value = Number_;
  static constexpr bool kPerLine = true;
  std::int64_t values(std::int64_t /*width*/) const { return 1; }
  void reduce(const Cell<Number>& cell, Value* out) const {
    *out = Reduce{}(cell.data, cell.width);
  }
};

/// One number for each tile of each line.
template <typename Number, typename Reduce>
class TilePacking : public CellPacking<TileKernel<Number, Reduce>> {
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
  using Kernel = TileKernel<Number, Reduce>;
  const std::int64_t lines_, tiles_;
};

}  // namespace tt::trace

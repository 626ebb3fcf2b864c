#include "tensor_tracer/trace/column_kernels.h"

#include <algorithm>
#include <cstddef>

namespace tt::trace {
namespace {

constexpr std::int64_t kLanes = 8;

template <typename Number>
Number mean_of(const Number* values, std::int64_t n) {
  Number lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += values[i + lane];
  }
  for (std::int64_t lane = 0; i < n; ++i, ++lane) lanes[lane] += values[i];
  const Number low = (lanes[0] + lanes[4]) + (lanes[2] + lanes[6]);
  const Number high = (lanes[1] + lanes[5]) + (lanes[3] + lanes[7]);
  return (low + high) / static_cast<Number>(n);
}

}  // namespace

float fixed_order_mean(const float* values, std::int64_t n) { return mean_of(values, n); }
double fixed_order_mean(const double* values, std::int64_t n) { return mean_of(values, n); }

template <typename Number>
void pack_rows(const Number* input, std::int64_t rows, std::int64_t stride,
               const std::vector<Piece>& pieces, Number* output) {
  for (std::int64_t row = 0; row < rows; ++row, input += stride) {
    for (const Piece& piece : pieces) {
      const Number* columns = input + piece.local_begin;
      if (piece.raw) {
        output = std::copy_n(columns, piece.width, output);
      } else {
        *output++ = mean_of(columns, piece.width);
      }
    }
  }
}

template <typename Number>
void unpack_rows(const ColumnLayout& layout, std::int64_t rows,
                 const std::vector<const Number*>& parts, Number* output) {
  std::vector<Number> joined(static_cast<std::size_t>(layout.features));
  for (std::int64_t row = 0; row < rows; ++row, output += layout.outputs()) {
    for (std::size_t i = 0; i < layout.joins.size();) {
      const Join& first = layout.joins[i];
      std::int64_t width = 0;
      for (; i < layout.joins.size() && layout.joins[i].output == first.output; ++i) {
        const Join& join = layout.joins[i];
        const Number* source = parts[join.rank] + row * layout.values_per_row[join.rank];
        std::copy_n(source + join.offset, join.width, joined.data() + width);
        width += join.width;
      }
      if (layout.tiles > 0 && first.raw) {
        output[first.output] = mean_of(joined.data(), width);
      } else {
        std::copy_n(joined.data(), width, output + first.output);
      }
    }
  }
}

template void pack_rows(const float*, std::int64_t, std::int64_t, const std::vector<Piece>&,
                        float*);
template void pack_rows(const double*, std::int64_t, std::int64_t, const std::vector<Piece>&,
                        double*);
template void unpack_rows(const ColumnLayout&, std::int64_t, const std::vector<const float*>&,
                          float*);
template void unpack_rows(const ColumnLayout&, std::int64_t, const std::vector<const double*>&,
                          double*);

}  // namespace tt::trace

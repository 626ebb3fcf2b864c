#pragma once

#include <cstdint>
#include <vector>

#include "tensor_tracer/trace/layout.h"

namespace tt::trace {

/// Mean of n numbers in one fixed order that depends on n alone: eight running sums over every
/// eighth number, then a tree. The same bits wherever the numbers lie. REQUIRES: n > 0.
float fixed_order_mean(const float* values, std::int64_t n);
double fixed_order_mean(const double* values, std::int64_t n);

/// One rank's part of `rows` rows: for each row, for each piece, its mean or its raw columns.
/// `input` is row-major with `stride` columns per row; writes rows * values_per_row numbers.
template <typename Number>
void pack_rows(const Number* input, std::int64_t rows, std::int64_t stride,
               const std::vector<Piece>& pieces, Number* output);

/// The leader's half: joins the parts of every rank (parts[r] as pack_rows wrote them) to
/// rows * outputs() numbers in logical order.
template <typename Number>
void unpack_rows(const ColumnLayout& layout, std::int64_t rows,
                 const std::vector<const Number*>& parts, Number* output);

}  // namespace tt::trace

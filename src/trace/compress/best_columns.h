#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "src/trace/compress/cells.h"
#include "src/trace/compress/kinds.h"
#include "src/trace/device/reducers.h"
#include "src/trace/json_fields.h"
#include "tensor_tracer/trace/reductions.h"

/// Compressors that keep the best k columns of each line, by an Order of device/reducers.h.
namespace tt::trace {

using device::Candidate;
using device::is_better;

template <typename Order, typename Number>
struct BestKernel {
  using Value = Candidate<Number>;
  std::int64_t k;
  std::vector<Value> heap = {};  // reused; the front is the worst of the best k so far

  void reduce(const Cell<Number>& cell, Value* out) {
    constexpr auto kBetter = is_better<Order, Number>;
    heap.clear();
    const std::int64_t count = std::min(k, cell.width);
    for (std::int64_t i = 0; i < count; ++i) heap.push_back(candidate(cell, i));
    std::ranges::make_heap(heap, kBetter);
    for (std::int64_t i = next_better(cell, count); i < cell.width; i = next_better(cell, i + 1)) {
      std::ranges::pop_heap(heap, kBetter);
      heap.back() = candidate(cell, i);
      std::ranges::push_heap(heap, kBetter);
    }
    std::ranges::sort(heap, kBetter);
    std::ranges::copy(heap, out);
  }

 private:
  static Value candidate(const Cell<Number>& cell, std::int64_t i) {
    return {cell.data[i], static_cast<Number>(cell.first_column + i)};
  }

  // The first column from `from` on that is better than the worst in the heap. All columns in the
  // heap come before, so equal keys are not better, nor is a NaN better than a NaN.
  std::int64_t next_better(const Cell<Number>& cell, std::int64_t from) const {
    constexpr Number kInfinity = std::numeric_limits<Number>::infinity();
    if (from >= cell.width || std::isnan(heap.front().value)) return cell.width;
    const Number high = Order::key(heap.front().value);
    const Number low = Order::key(-kInfinity) < 0 ? -kInfinity : -high;
    return from + first_outside(cell.data + from, cell.width - from, low, high);
  }
};

template <typename Order, typename Number_>
struct BestMethod : CellMethod {
  using Number = Number_;
  using Value = Candidate<Number_>;
  using Kernel = BestKernel<Order, Number_>;
  static constexpr std::string_view kCompressor = Order::kKind;
  std::int64_t k;
  std::int64_t values(std::int64_t width) const { return std::min(k, width); }
  Kernel kernel(const CaptureFacts& /*facts*/) const { return {k}; }
  template <typename Element>
  device::Prepared<device::BestReducer<Order, Element>> device(const CaptureFacts&,
                                                               at::Device) const {
    return {{{}, k}};
  }

  void combine(const Kernel& /*kernel*/, std::span<Value> candidates, std::int64_t lines,
               const std::vector<const std::byte*>& /*tails*/, Number* out) const {
    const std::int64_t of_line = static_cast<std::int64_t>(candidates.size()) / lines;
    for (std::int64_t line = 0; line < lines; ++line) {
      Value* first = candidates.data() + line * of_line;
      std::partial_sort(first, first + k, first + of_line, is_better<Order, Number>);
      for (std::int64_t i = 0; i < k; ++i) {
        out[line * k + i] = first[i].value;
        out[(lines + line) * k + i] = first[i].column;
      }
    }
  }
};

template <typename Order>
struct BestOf {
  template <typename Number>
  using Method = BestMethod<Order, Number>;
};

/// [2, rows, lines, k]: the best k numbers of each line, the best first, then their columns.
template <typename Order>
std::shared_ptr<const Packing> best_packing(std::int64_t k, const LogicalShape& shape,
                                            bool is_double) {
  std::vector<std::int64_t> record = shape.result_shape(k);
  record.insert(record.begin(), 2);
  return make_cell_packing<BestOf<Order>::template Method>(
      is_double, shape, make_cell_layout(shape, 1, {}), std::move(record), k);
}

/// Reads {"kind": …, "k": 10}.
template <typename Order>
ParsedCompressor parse_best(const nlohmann::json& text, const std::string& where,
                            const CompressorContext& context) {
  const std::string kind(Order::kKind);
  if (context.point.dims.size() > 3) {
    return base::invalid_argument(where, context.point.name + " has too many dims for " + kind,
                                  "use tile or none");
  }
  constexpr std::int64_t kDefaultK = 10, kMaxK = device::kMaxBest;
  const std::int64_t features = context.point.features;
  std::int64_t k = std::min(kDefaultK, features);
  base::Status status = refuse_unknown_keys(text, where, {"kind", "k"});
  if (status) status = parse_integer(text, "k", where, 1, std::min(kMaxK, features), k);
  if (!status) return status.error();
  return parsed({.form = {{"kind", kind}, {"k", k}},
                 .code = protocol::RecordCompressor::kTopK,
                 .packing = std::bind_front(best_packing<Order>, k),
                 .needs_full_precision = true});
}

}  // namespace tt::trace

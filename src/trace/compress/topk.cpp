#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "src/trace/compress/cells.h"
#include "src/trace/compress/kinds.h"
#include "src/trace/json_fields.h"

namespace tt::trace {
namespace {

using nlohmann::json;

constexpr std::int64_t kDefaultK = 10;
constexpr std::int64_t kMaxK = 256;

template <typename Number>
struct Candidate {
  Number value = 0;
  Number column = 0;  // exact: columns are fewer than 2^24
};

// NaN first, so that it is seen; equal values by column.
template <typename Number>
bool before(const Candidate<Number>& a, const Candidate<Number>& b) {
  const bool a_nan = std::isnan(a.value), b_nan = std::isnan(b.value);
  if (a_nan != b_nan) return a_nan;
  if (!a_nan && a.value != b.value) return a.value > b.value;
  return a.column < b.column;
}

template <typename Number_>
struct TopKernel {
  using Number = Number_;
  using Value = Candidate<Number_>;
  static constexpr bool kPerLine = true;
  std::int64_t k;
  std::vector<Value> heap = {};  // reused; its front is the least of the best so far
  std::int64_t values(std::int64_t width) const { return std::min(k, width); }

  void reduce(const Cell<Number>& cell, Value* out) {
    heap.clear();
    const auto count = static_cast<std::size_t>(values(cell.width));
    for (std::int64_t i = 0; i < cell.width; ++i) {
      const Value next{cell.data[i], static_cast<Number>(cell.first_column + i)};
      if (heap.size() == count) {
        if (!before(next, heap.front())) continue;
        std::ranges::pop_heap(heap, before<Number>);
        heap.back() = next;
      } else {
        heap.push_back(next);
      }
      std::ranges::push_heap(heap, before<Number>);
    }
    std::ranges::sort(heap, before<Number>);
    std::ranges::copy(heap, out);
  }
};

// [2, rows, lines, k]: the k largest numbers of each line, descending, then their columns.
template <typename Number>
class TopKPacking : public CellPacking<TopKernel<Number>> {
 public:
  TopKPacking(const LogicalShape& shape, std::int64_t k)
      : CellPacking<Kernel>(make_cell_layout(shape, 1, {}), pair_of(shape.result_shape(k)),
                            Kernel{k}),
        k_(k),
        lines_(shape.rows * shape.wanted_lines()),
        lines_per_row_(shape.wanted_lines()) {
    for (const Block& block : this->layout_.columns.blocks) {
      offsets_.push_back(candidates_);
      candidates_ += std::min(k, block.count);
    }
  }

  void pack(int /*layer*/, std::size_t rank, const LocalTensor& local,
            std::byte* part) const override {
    Kernel kernel{k_};
    this->pack_with(kernel, rank, local, part);
  }
  void join(int /*layer*/, const std::vector<const std::byte*>& parts,
            std::byte* out) const override {
    Kernel kernel{k_};
    std::vector<Candidate<Number>> all(static_cast<std::size_t>(lines_ * candidates_));
    this->join_with(kernel, parts, [&](const CellPlace& at) {
      return all.data() + (at.row * lines_per_row_ + at.line) * candidates_ + offsets_[at.column];
    });
    auto* numbers = reinterpret_cast<Number*>(out);
    for (std::int64_t line = 0; line < lines_; ++line) {
      auto* first = all.data() + line * candidates_;
      std::partial_sort(first, first + k_, first + candidates_, before<Number>);
      for (std::int64_t i = 0; i < k_; ++i) {
        numbers[line * k_ + i] = first[i].value;
        numbers[(lines_ + line) * k_ + i] = first[i].column;
      }
    }
  }

 private:
  using Kernel = TopKernel<Number>;
  static std::vector<std::int64_t> pair_of(std::vector<std::int64_t> shape) {
    shape.insert(shape.begin(), 2);
    return shape;
  }

  const std::int64_t k_, lines_, lines_per_row_;
  std::vector<std::int64_t> offsets_;  // of each block's candidates in a line's
  std::int64_t candidates_ = 0;        // of one line
};

class TopKCompressor : public Compressor {
 public:
  explicit TopKCompressor(std::int64_t k) : k_(k) {}
  json to_json() const override { return {{"kind", "topk"}, {"k", k_}}; }
  protocol::RecordCompressor code() const override { return protocol::RecordCompressor::kTopK; }
  bool needs_full_precision() const override { return true; }
  std::shared_ptr<const Packing> packing(const LogicalShape& shape, bool is_double) const override {
    if (is_double) return std::make_shared<TopKPacking<double>>(shape, k_);
    return std::make_shared<TopKPacking<float>>(shape, k_);
  }

 private:
  const std::int64_t k_;
};

}  // namespace

ParsedCompressor parse_topk(const json& text, const std::string& where,
                            const CompressorContext& context) {
  if (context.point.dims.size() > 3) {
    return base::invalid_argument(where, context.point.name + " has too many dims for topk",
                                  "use tile or none");
  }
  const std::int64_t features = context.point.features;
  std::int64_t k = std::min(kDefaultK, features);
  base::Status status = refuse_unknown_keys(text, where, {"kind", "k"});
  if (status) status = parse_integer(text, "k", where, 1, std::min(kMaxK, features), k);
  if (!status) return status.error();
  return made<TopKCompressor>(k);
}

}  // namespace tt::trace

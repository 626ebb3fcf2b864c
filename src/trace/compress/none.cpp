#include <algorithm>
#include <utility>

#include "src/trace/compress/cells.h"
#include "src/trace/compress/kinds.h"
#include "src/trace/json_fields.h"

namespace tt::trace {
namespace {

template <typename Number_>
struct CopyKernel {
  using Number = Number_;
  using Value = Number_;
  static constexpr bool kPerLine = true;
  std::int64_t values(std::int64_t width) const { return width; }
  void reduce(const Cell<Number>& cell, Value* out) const {
    std::copy_n(cell.data, cell.width, out);
  }
};

template <typename Number>
class CopyPacking : public CellPacking<CopyKernel<Number>> {
 public:
  explicit CopyPacking(const LogicalShape& shape)
      : CellPacking<Kernel>(make_cell_layout(shape, 1, {}), shape.result_shape(shape.features), {}),
        lines_(shape.wanted_lines()),
        features_(shape.features) {}

  void pack(int /*layer*/, std::size_t rank, const LocalTensor& local,
            std::byte* part) const override {
    Kernel kernel;
    this->pack_with(kernel, rank, local, part);
  }
  void join(int /*layer*/, const std::vector<const std::byte*>& parts,
            std::byte* out) const override {
    Kernel kernel;
    this->join_with(kernel, parts, [&](const CellPlace& at) {
      return reinterpret_cast<Number*>(out) + (at.row * lines_ + at.line) * features_ + at.begin;
    });
  }

 private:
  using Kernel = CopyKernel<Number>;
  const std::int64_t lines_, features_;
};

// Every column, as it is.
class NoCompressor : public Compressor {
 public:
  nlohmann::json to_json() const override { return {{"kind", "none"}}; }
  protocol::RecordCompressor code() const override { return protocol::RecordCompressor::kNone; }
  std::shared_ptr<const Packing> packing(const LogicalShape& shape, bool is_double) const override {
    return make_copy_packing(shape, is_double);
  }
};

// No numbers: tells that the point was passed, and when.
class EmptyPacking : public Packing {
 public:
  explicit EmptyPacking(std::vector<std::int64_t> shape) : shape_(std::move(shape)) {}
  std::size_t part_bytes(std::size_t /*rank*/) const override { return 0; }
  void pack(int, std::size_t, const LocalTensor&, std::byte*) const override {}
  void join(int, const std::vector<const std::byte*>&, std::byte*) const override {}
  std::vector<std::int64_t> shape() const override { return shape_; }

 private:
  const std::vector<std::int64_t> shape_;
};

class EmptyCompressor : public Compressor {
 public:
  nlohmann::json to_json() const override { return {{"kind", "empty"}}; }
  protocol::RecordCompressor code() const override { return protocol::RecordCompressor::kEmpty; }
  std::shared_ptr<const Packing> packing(const LogicalShape& shape,
                                         bool /*is_double*/) const override {
    return std::make_shared<EmptyPacking>(shape.result_shape(0));
  }
};

}  // namespace

std::shared_ptr<const Packing> make_copy_packing(const LogicalShape& shape, bool is_double) {
  if (is_double) return std::make_shared<CopyPacking<double>>(shape);
  return std::make_shared<CopyPacking<float>>(shape);
}

ParsedCompressor parse_none(const nlohmann::json& text, const std::string& where,
                            const CompressorContext& /*context*/) {
  if (auto status = refuse_unknown_keys(text, where, {"kind"}); !status) return status.error();
  return made<NoCompressor>();
}

ParsedCompressor parse_empty(const nlohmann::json& text, const std::string& where,
                             const CompressorContext& /*context*/) {
  if (auto status = refuse_unknown_keys(text, where, {"kind"}); !status) return status.error();
  return made<EmptyCompressor>();
}

}  // namespace tt::trace

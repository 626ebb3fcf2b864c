#include <utility>

#include "src/trace/compress/kinds.h"
#include "src/trace/json_fields.h"

namespace tt::trace {
namespace {

// Sends no numbers: the record only states that the forward reached the trace point, and when.
class EmptyPacking : public Packing {
 public:
  explicit EmptyPacking(std::vector<std::int64_t> shape) : shape_(std::move(shape)) {}
  std::size_t part_bytes(std::size_t /*rank*/) const override { return 0; }
  std::vector<std::int64_t> shape() const override { return shape_; }
  const PackKernels& kernels() const override { return kernels_; }
  void join(const CaptureFacts&, const std::vector<const std::byte*>&, std::byte*) const override {}

 private:
  const std::vector<std::int64_t> shape_;
  const PackKernels kernels_{"empty", {}};
};

}  // namespace

ParsedCompressor parse_empty(const nlohmann::json& text, const std::string& where,
                             const CompressorContext& /*context*/) {
  if (auto status = refuse_unknown_keys(text, where, {"kind"}); !status) return status.error();
  return parsed({.form = {{"kind", "empty"}},
                 .code = protocol::RecordCompressor::kEmpty,
                 .packing = [](const LogicalShape& shape, bool /*is_double*/) {
                   return std::make_shared<EmptyPacking>(shape.result_shape(0));
                 }});
}

}  // namespace tt::trace

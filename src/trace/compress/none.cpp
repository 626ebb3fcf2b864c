#include <algorithm>

#include "src/trace/compress/cells.h"
#include "src/trace/compress/kinds.h"
#include "src/trace/device/reducers.h"
#include "src/trace/json_fields.h"

namespace tt::trace {
namespace {

template <typename Number_>
struct CopyMethod : CellMethod {
  using Number = Number_;
  using Value = Number_;
  static constexpr std::string_view kCompressor = "none";
  std::int64_t values(std::int64_t width) const { return width; }
  CopyMethod kernel(const CaptureFacts& /*facts*/) const { return {}; }
  template <typename Element>
  device::Prepared<device::CopyReducer<Element>> device(const CaptureFacts&, at::Device) const {
    return {};
  }
  void reduce(const Cell<Number>& cell, Value* out) const {
    std::copy_n(cell.data, cell.width, out);
  }
};

}  // namespace

std::shared_ptr<const Packing> make_copy_packing(const LogicalShape& shape, bool is_double) {
  return make_cell_packing<CopyMethod>(is_double, shape, make_cell_layout(shape, 1, {}),
                                       shape.result_shape(shape.features));
}

ParsedCompressor parse_none(const nlohmann::json& text, const std::string& where,
                            const CompressorContext& /*context*/) {
  if (auto status = refuse_unknown_keys(text, where, {"kind"}); !status) return status.error();
  return parsed({.form = {{"kind", "none"}},
                 .code = protocol::RecordCompressor::kNone,
                 .packing = make_copy_packing});
}

}  // namespace tt::trace

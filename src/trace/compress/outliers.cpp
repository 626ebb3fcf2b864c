#include "src/trace/compress/best_columns.h"

namespace tt::trace {
namespace {

struct ByMagnitude {
  static constexpr std::string_view kKind = "outliers";
  template <typename Number>
  static Number key(Number value) {
    return std::abs(value);
  }
};

}  // namespace

ParsedCompressor parse_outliers(const nlohmann::json& text, const std::string& where,
                                const CompressorContext& context) {
  return parse_best<ByMagnitude>(text, where, context);
}

}  // namespace tt::trace

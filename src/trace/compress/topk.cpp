#include "src/trace/compress/best_columns.h"

namespace tt::trace {
namespace {

struct ByValue {
  static constexpr std::string_view kKind = "topk";
  template <typename Number>
  static Number key(Number value) {
    return value;
  }
};

}  // namespace

ParsedCompressor parse_topk(const nlohmann::json& text, const std::string& where,
                            const CompressorContext& context) {
  return parse_best<ByValue>(text, where, context);
}

}  // namespace tt::trace

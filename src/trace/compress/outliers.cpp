#include "src/trace/compress/best_columns.h"

namespace tt::trace {

ParsedCompressor parse_outliers(const nlohmann::json& text, const std::string& where,
                                const CompressorContext& context) {
  return parse_best<device::ByMagnitude>(text, where, context);
}

}  // namespace tt::trace

#include <functional>
#include <utility>

#include "src/trace/compress/best_columns.h"
#include "src/trace/compress/predictions.h"

namespace tt::trace {

ParsedCompressor parse_topk(const nlohmann::json& text, const std::string& where,
                            const CompressorContext& context) {
  auto best = parse_best<device::ByValue>(text, where, context);
  if (!best || !context.point.is_vocabulary || context.is_gradient) return best;
  Compressor with_softmax = *best.value();
  with_softmax.packing =
      std::bind_front(make_prediction_packing, with_softmax.form["k"].get<std::int64_t>());
  with_softmax.needs_targets = true;
  return parsed(std::move(with_softmax));
}

}  // namespace tt::trace

#include "src/hub/legacy/texts.h"

#include <span>

#include "src/hub/legacy/native_plan.h"
#include "src/hub/legacy/numbers.h"

namespace tt::hub::dialect {
namespace {

using nlohmann::json;

// Tensor Tracer gets the whole shape. MegaScope gets no batch, and, except for attention, no
// columns: its reader computes them by a division.
std::span<const std::uint32_t> told_shape(Dialect dialect, const protocol::RecordHeader& header) {
  const std::span<const std::uint32_t> shape(header.shape.data(), header.ndim);
  if (dialect == Dialect::kTensorTracer || shape.size() < 3) return shape;
  return shape.size() == 4 ? shape.subspan(1) : shape.subspan(1, 1);
}

}  // namespace

std::string pong_text() { return R"({"type":"pong"})"; }

std::string error_text(const base::Error& error) {
  const json text = {{"type", "error"}, {"message", base::to_string(error)}};
  return text.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string start_text(const json& facts) {
  const json text = {{"type", "start"},
                     {"micro_batch_size", fact(facts, {"micro_batch_size"})},
                     {"seq_length", fact(facts, {"model", "seq_length"})},
                     {"num_layers", fact(facts, {"model", "num_layers"})}};
  return text.dump();
}

std::string update_text(Dialect dialect, const protocol::RecordView& record) {
  std::string text = R"({"type":"update","update_type":)" + std::to_string(record.header.point) +
                     R"(,"layer_id":)" + std::to_string(record.header.layer) + R"(,"args":[)";
  const char* separator = "";
  for (const std::uint32_t extent : told_shape(dialect, record.header)) {
    text += separator + std::to_string(extent);
    separator = ",";
  }
  text += R"(],"result":[)";
  append_numbers(text, record);
  text += "]}";
  return text;
}

}  // namespace tt::hub::dialect

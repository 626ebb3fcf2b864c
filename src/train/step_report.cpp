#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tensor_tracer/train/trainer.h"

namespace tt::train {

nlohmann::json to_json(const StepReport& report) {
  nlohmann::json object = {{"step", report.step},
                           {"loss", report.loss},
                           {"lr", report.lr},
                           {"grad_norm", report.grad_norm},
                           {"tokens_per_second", report.tokens_per_second},
                           {"step_ms", report.step_ms},
                           {"tracer_ms", report.tracer_ms},
                           {"gather_ms", report.gather_ms},
                           {"encode_ms", report.encode_ms},
                           {"consumed_tokens", report.consumed_tokens}};
  if (report.valid_loss) object["valid_loss"] = *report.valid_loss;
  return object;
}

std::string to_line(const StepReport& report, std::int64_t train_iters) {
  std::string line = fmt::format(
      "step {:>6}/{}  loss {:.4f}  lr {:.2e}  grad norm {:.3f}  {:.0f} tokens/s  {:.0f} ms",
      report.step, train_iters, report.loss, report.lr, report.grad_norm, report.tokens_per_second,
      report.step_ms);
  if (report.valid_loss) line += fmt::format("  valid loss {:.4f}", *report.valid_loss);
  return line;
}

}  // namespace tt::train

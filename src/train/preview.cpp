#include "src/train/preview.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "src/train/all_ranks_ok.h"
#include "tensor_tracer/base/base64.h"

namespace tt::train {
namespace {

// Of one pass; two of them in Base64 fit into a worker's message.
constexpr std::size_t kMaxRecordBytes = std::size_t{1} << 20U;

base::Error too_many_bytes(std::size_t bytes) {
  return {"too_large",
          "the plan's records have " + std::to_string(bytes) + " bytes, a preview sends " +
              std::to_string(kMaxRecordBytes),
          "plan", "watch fewer layers, rows or tokens, or reduce them more"};
}

}  // namespace

class Preview::Kept : public trace::TraceSink {
 public:
  void send_records(std::string records) noexcept override { records_ += records; }
  void send_event(std::string_view /*event*/, nlohmann::json /*params*/) noexcept override {}
  std::string take() { return std::exchange(records_, {}); }

 private:
  std::string records_;
};

base::Result<std::optional<trace::Plan>> Preview::begin(const nlohmann::json& params,
                                                        const trace::FileContents& contents) {
  std::optional<trace::Plan> plan;
  if (const auto text = params.find("plan"); text != params.end()) {
    trace::ReceivedFiles files(contents);
    trace::PlanContext context = context_;
    context.vectors = &files;
    auto read = trace::parse_plan(*text, context, 0);
    if (!read) return read.error();
    plan = std::move(read).value();
  }
  const base::Status status = hooks_.begin_preview(params, contents);
  if (!status) return status.error();
  return plan;
}

// Without dropout, so that both passes differ by the program alone. The gradients are thrown away.
Preview::Losses Preview::measure(std::int64_t step, bool has_backward, trace::Tracer* watch,
                                 Kept& kept) {
  Losses losses;
  losses.train = runner_.mean_over_replicas(
      runner_.mean_loss({.step = step, .has_backward = has_backward}, nullptr));
  losses.valid = runner_.mean_over_replicas(
      runner_.mean_loss({.step = step, .phase = trace::Phase::kEval}, watch));
  runner_.finish();
  losses.records = kept.take();
  return losses;
}

base::Result<nlohmann::json> Preview::run(const nlohmann::json& params,
                                          const trace::FileContents& contents,
                                          std::int64_t steps_done) {
  auto plan = begin(params, contents);
  if (!all_ranks_ok(groups_.control, plan.ok())) {
    if (!plan) return plan.error();
    hooks_.end_preview();
    return base::Error{"invalid_argument", "another rank could not take the program", "program",
                       ""};
  }
  Kept kept;
  std::optional<trace::Tracer> watch;
  if (plan.value()) {
    watch.emplace(context_, trace::TracerIdentity{run_id_, groups_.coordinates}, groups_.tracer,
                  &kept);
    watch->set_plan(std::make_shared<const trace::Plan>(*std::move(plan).value()));
  }
  trace::Tracer* const tracer = watch ? &*watch : nullptr;
  const std::int64_t step = std::max<std::int64_t>(steps_done, 1);
  const Losses off = measure(step, false, tracer, kept);
  hooks_.turn_preview(true);
  const Losses on = measure(step, hooks_.preview_writes_gradients(), tracer, kept);
  nlohmann::json writes = hooks_.preview_writes();
  hooks_.end_preview();
  const std::size_t bytes = std::max(off.records.size(), on.records.size());
  if (bytes > kMaxRecordBytes) return too_many_bytes(bytes);
  nlohmann::json answer = {{"step", steps_done},
                           {"batches",
                            {{{"batch", "train"}, {"loss_off", off.train}, {"loss_on", on.train}},
                             {{"batch", "valid"}, {"loss_off", off.valid}, {"loss_on", on.valid}}}},
                           {"writes", std::move(writes)}};
  if (watch) {
    answer["records"] = {{"off", base::to_base64(off.records)},
                         {"on", base::to_base64(on.records)}};
  }
  return answer;
}

}  // namespace tt::train

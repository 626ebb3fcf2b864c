// The answer of "intervention.preview": the last training batch and the first evaluation batch
// without and with a program.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <optional>
#include <string>
#include <utility>

#include "src/train/all_ranks_ok.h"
#include "tensor_tracer/base/base64.h"
#include "tensor_tracer/train/trainer.h"

namespace tt::train {
namespace {

// Of one pass; two of them in Base64 fit into a worker's message.
constexpr std::size_t kMaxRecordBytes = std::size_t{1} << 20U;

/// Keeps the records of a pass.
class Kept : public trace::TraceSink {
 public:
  void send_records(std::string records) noexcept override { records_ += records; }
  void send_event(std::string_view /*event*/, nlohmann::json /*params*/) noexcept override {}
  std::string take() { return std::exchange(records_, {}); }

 private:
  std::string records_;
};

base::Error too_many_bytes(std::size_t bytes) {
  return {"too_large",
          "the plan's records have " + std::to_string(bytes) + " bytes, a preview sends " +
              std::to_string(kMaxRecordBytes),
          "plan", "watch fewer layers, rows or tokens, or reduce them more"};
}

}  // namespace

/// What a preview's plan watches of its evaluation batch.
class Trainer::PreviewWatch {
 public:
  PreviewWatch(Trainer& trainer, trace::Plan plan)
      : tracer_(trainer.parts_.plan_context,
                {trainer.parts_.run_id, trainer.parts_.groups.coordinates},
                trainer.parts_.groups.tracer, &kept_) {
    tracer_.set_plan(std::make_shared<const trace::Plan>(std::move(plan)));
  }
  trace::Tracer& tracer() { return tracer_; }
  std::string take() { return kept_.take(); }

 private:
  Kept kept_;
  trace::Tracer tracer_;
};

/// Of one batch, with or without the program.
struct Trainer::PreviewPass {
  std::int64_t number = 0;
  trace::Phase phase = trace::Phase::kTrain;
  bool has_backward = false;  // whose gradients are thrown away
};

// Without dropout, so that both passes differ by the program alone.
double Trainer::preview_loss(const PreviewPass& pass, trace::Tracer& tracer) {
  const auto [number, phase, has_backward] = pass;
  const at::AutoGradMode mode(has_backward);
  double sum = 0.0;
  for (std::int64_t micro = 0; micro < num_micro_batches_; ++micro) {
    const std::int64_t first_row =
        (micro * parts_.groups.shape.data + parts_.groups.coordinates.data) *
        config_.micro_batch_size;
    const data::Batch batch =
        phase == trace::Phase::kTrain
            ? batches_.train(number, global_batch_, first_row, config_.micro_batch_size)
            : batches_.valid(0, global_batch_, first_row, config_.micro_batch_size);
    const trace::ForwardScope scope{number, micro, first_row, phase};
    // The run's own tracer watches no preview.
    if (&tracer != &tracer_) tracer.begin_forward(scope);
    const nn::ForwardContext context{tracer, static_cast<std::uint64_t>(config_.seed),
                                     number, first_row,
                                     false,  acting(scope, batch.tokens)};
    const at::Tensor loss = model_.loss(batch.tokens, batch.labels, context);
    tracer.end_forward();
    if (loss.requires_grad()) loss.backward(at::full_like(loss, share_of_loss()));
    sum += loss.item<double>();
    tracer.finish();
    end_interventions();
  }
  return mean_over_data(sum / static_cast<double>(num_micro_batches_));
}

base::Status Trainer::begin_preview(const nlohmann::json& params,
                                    const trace::FileContents& contents,
                                    std::optional<PreviewWatch>& watch) {
  if (const auto plan = params.find("plan"); plan != params.end()) {
    trace::ReceivedFiles files(contents);
    trace::PlanContext context = parts_.plan_context;
    context.vectors = &files;
    auto read = trace::parse_plan(*plan, context, 0);
    if (!read) return read.error();
    watch.emplace(*this, std::move(read).value());
  }
  return parts_.hooks->begin_preview(params, contents);
}

base::Result<nlohmann::json> Trainer::preview(const nlohmann::json& params,
                                              const trace::FileContents& contents,
                                              std::int64_t done) {
  const std::int64_t number = std::max<std::int64_t>(done, 1);
  std::optional<PreviewWatch> watch;
  const base::Status status = begin_preview(params, contents, watch);
  const bool could = all_ranks_ok(parts_.groups.control, status.ok());
  if (!could) {
    if (status.ok()) parts_.hooks->end_preview();
    if (!status.ok()) return status.error();
    return base::Error{"invalid_argument", "another rank could not take the program", "program",
                       ""};
  }
  trace::Tracer& tracer = watch ? watch->tracer() : tracer_;
  const double train_off = preview_loss({number, trace::Phase::kTrain}, tracer_);
  const double valid_off = preview_loss({number, trace::Phase::kEval}, tracer);
  const std::string records_off = watch ? watch->take() : "";
  parts_.hooks->turn_preview(true);
  const bool has_backward = parts_.hooks->preview_writes_gradients();
  const double train_on = preview_loss({number, trace::Phase::kTrain, has_backward}, tracer_);
  const double valid_on = preview_loss({number, trace::Phase::kEval}, tracer);
  gradients_.zero();
  const std::string records_on = watch ? watch->take() : "";
  nlohmann::json writes = parts_.hooks->preview_writes();
  parts_.hooks->end_preview();
  const std::size_t bytes = std::max(records_off.size(), records_on.size());
  if (bytes > kMaxRecordBytes) return too_many_bytes(bytes);
  nlohmann::json answer = {{"step", done},
                           {"batches",
                            {{{"batch", "train"}, {"loss_off", train_off}, {"loss_on", train_on}},
                             {{"batch", "valid"}, {"loss_off", valid_off}, {"loss_on", valid_on}}}},
                           {"writes", std::move(writes)}};
  if (watch) {
    answer["records"] = {{"off", base::to_base64(records_off)},
                         {"on", base::to_base64(records_on)}};
  }
  return answer;
}

}  // namespace tt::train

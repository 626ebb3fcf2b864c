#include "tensor_tracer/train/plan_context.h"

#include "tensor_tracer/control/prompt_control.h"
#include "tensor_tracer/model/gpt.h"

namespace tt::train {

trace::PlanContext make_plan_context(const config::TrainConfig& config,
                                     const mesh::MeshShape& shape, trace::VectorLibrary* vectors,
                                     const std::vector<data::PromptSet>& prompts) {
  trace::PlanContext context;
  context.places = model::describe_model(config.model, shape.tensor, config.micro_batch_size,
                                         config.compute_dtype())
                       .places();
  context.tensor_ranks = shape.tensor;
  context.micro_batches = config.global_batch(shape.data) / (config.micro_batch_size * shape.data);
  context.micro_batch_size = config.micro_batch_size;
  context.seq_length = config.model.seq_length;
  context.vectors = vectors;
  context.prompt_sets.replace(control::shapes_of(prompts));
  if (config.monitor.monitor_generate_interval > 0)
    context.response_tokens = config.monitor.responses.max_new_tokens;
  return context;
}

trace::OtherPasses make_other_passes(const config::TrainConfig& config) {
  const config::MonitorConfig& monitor = config.monitor;
  return {config.eval_interval, config.eval_iters, monitor.monitor_interval,
          monitor.monitor_generate_interval};
}

}  // namespace tt::train

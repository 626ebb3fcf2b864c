#include "tensor_tracer/train/plan_context.h"

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
  context.prompt_sets.replace(shapes_of(prompts));
  return context;
}

points::PromptSets::List shapes_of(const std::vector<data::PromptSet>& sets) {
  points::PromptSets::List shapes;
  for (const data::PromptSet& set : sets) {
    shapes.push_back({.name = set.name,
                      .rows = static_cast<std::int64_t>(set.texts.size()),
                      .tokens = set.longest(),
                      .is_removed = set.is_removed,
                      .shortest = set.shortest()});
  }
  return shapes;
}

trace::OtherPasses make_other_passes(const config::TrainConfig& config) {
  return {config.eval_interval, config.eval_iters, config.monitor.monitor_interval};
}

base::Result<nlohmann::json> check_plan(const nlohmann::json& plan,
                                        const trace::PlanContext& context,
                                        const trace::OtherPasses& passes) {
  const auto parsed = trace::parse_plan(plan, context, 0);
  if (!parsed) return parsed.error();
  return trace::to_json(trace::cost_of(parsed.value(), context, passes));
}

}  // namespace tt::train

#include "tensor_tracer/train/plan_context.h"

#include <memory>
#include <utility>

#include "tensor_tracer/model/points.h"

namespace tt::train {

trace::PlanContext make_plan_context(const config::TrainConfig& config,
                                     const mesh::MeshShape& shape, trace::VectorLibrary* vectors,
                                     std::vector<std::string> prompt_sets) {
  trace::PlanContext context;
  context.catalogue =
      std::make_shared<const trace::Catalogue>(model::make_catalogue(config.model, shape.tensor));
  context.tensor_ranks = shape.tensor;
  context.micro_batches = config.global_batch(shape.data) / (config.micro_batch_size * shape.data);
  context.micro_batch_size = config.micro_batch_size;
  context.seq_length = config.model.seq_length;
  context.vectors = vectors;
  context.prompt_sets = std::move(prompt_sets);
  return context;
}

}  // namespace tt::train

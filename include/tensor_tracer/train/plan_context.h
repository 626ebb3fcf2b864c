#pragma once

#include <vector>

#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/data/prompts.h"
#include "tensor_tracer/mesh/mesh.h"
#include "tensor_tracer/trace/plan.h"
#include "tensor_tracer/trace/plan_cost.h"

namespace tt::train {

/// The facts of a run, to check its trace plans. `vectors` may be null; it outlives the result.
/// REQUIRES: config passed config::check for this mesh.
trace::PlanContext make_plan_context(const config::TrainConfig& config,
                                     const mesh::MeshShape& shape, trace::VectorLibrary* vectors,
                                     const std::vector<data::PromptSet>& prompts);

/// The passes besides training that a plan may trace.
trace::OtherPasses make_other_passes(const config::TrainConfig& config);

}  // namespace tt::train

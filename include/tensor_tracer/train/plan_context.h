#pragma once

#include <string>
#include <vector>

#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/mesh/mesh.h"
#include "tensor_tracer/trace/plan.h"

namespace tt::train {

/// What the trace plans of a run are checked against. `vectors` may be null and outlives the
/// result. REQUIRES: config passed config::check for this mesh.
trace::PlanContext make_plan_context(const config::TrainConfig& config,
                                     const mesh::MeshShape& shape, trace::VectorLibrary* vectors,
                                     std::vector<std::string> prompt_sets);

}  // namespace tt::train

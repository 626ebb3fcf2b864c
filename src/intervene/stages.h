#pragma once

#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/graph/program.h"

namespace tt::intervene {

/// The virtual pipeline stages at which the effects of a program run: by index of the program's
/// layers, then by effect.
using EffectStages = std::vector<std::vector<int>>;

/// `layers`: the layers that the program is compiled for. An effect that needs no place runs at
/// stage 0. Error, as in expr::to_error(): an effect needs values of two stages, or tokens at a
/// stage that does not get them. Thread: any.
base::Result<EffectStages> find_stages(const graph::Program& program,
                                       const std::vector<int>& layers,
                                       const points::PlaceTable& places);

}  // namespace tt::intervene

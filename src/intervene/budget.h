#pragma once

#include "src/intervene/specialization.h"
#include "tensor_tracer/eval/limits.h"

namespace tt::intervene {

/// Of the place's logical tensor.
std::int64_t bytes_of(const PlaceRef& ref);

/// What one line of the program may cost for this layer: as much as the whole program.
eval::Limits limits_of(const graph::Program& program, const Context& context, const Shape& shape,
                       int layer);

/// That the lines of a program, over all its layers, do not hold too much at one time nor cost too
/// much in one forward. On logical tensors, so that every mesh and every rank says the same. Errors
/// as in expr::to_error().
base::Status check_budget(const graph::Program& program,
                          const std::vector<LayerSpecialization>& layers, const Context& context);

}  // namespace tt::intervene

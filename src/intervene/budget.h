#pragma once

#include "src/intervene/specialization.h"
#include "tensor_tracer/eval/limits.h"

namespace tt::intervene {

/// Bytes of the place's logical tensor.
std::int64_t bytes_of(const PlaceRef& ref);

/// Limits of one line of the program for this layer. One line may use the limits of the whole
/// program.
eval::Limits limits_of(const graph::Program& program, const Context& context, const Shape& shape,
                       int layer);

/// Checks the bytes that the lines of a program hold at one time, over all its layers, and their
/// cost in one forward. Counts logical tensors, so the result is the same on every mesh and every
/// rank. Errors as in expr::to_error().
base::Status check_budget(const graph::Program& program,
                          const std::vector<LayerSpecialization>& layers, const Context& context);

}  // namespace tt::intervene

#include "src/trace/cuda/kernel.cuh"

namespace tt::trace::device {

void register_projection() { register_for_all_elements<DotReducer>(); }

}  // namespace tt::trace::device

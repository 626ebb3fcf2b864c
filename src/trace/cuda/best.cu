#include "src/trace/cuda/kernel.cuh"

namespace tt::trace::device {

void register_best() { register_for_all_elements<TopReducer, OutlierReducer>(); }

}  // namespace tt::trace::device

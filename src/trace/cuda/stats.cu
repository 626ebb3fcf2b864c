#include "src/trace/cuda/kernel.cuh"

namespace tt::trace::device {

void register_stats() { register_for_all_elements<StatsReducer>(); }

}  // namespace tt::trace::device

#include "src/trace/cuda/kernel.cuh"

namespace tt::trace::device {

void register_softmax() { register_for_all_elements<SoftmaxReducer>(); }

}  // namespace tt::trace::device

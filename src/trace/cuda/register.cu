#include "src/trace/cuda/kernel.cuh"

namespace tt::trace::device {

bool register_cuda_kernels() {
  register_tile();
  register_stats();
  register_projection();
  register_best();
  register_softmax();
  return true;
}

}  // namespace tt::trace::device

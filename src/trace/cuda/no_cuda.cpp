#include "src/trace/device/launcher.h"

namespace tt::trace::device {

bool register_cuda_kernels() { return false; }

}  // namespace tt::trace::device

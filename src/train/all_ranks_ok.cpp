#include "src/train/all_ranks_ok.h"

#include <ATen/ATen.h>

namespace tt::train {

bool all_ranks_ok(const comm::ProcessGroup& group, bool could) {
  at::Tensor ready = at::full({1}, could ? 1 : 0, at::device(at::kCPU).dtype(at::kInt));
  group.all_reduce(ready);
  return ready.item<int>() == group.size();
}

}  // namespace tt::train

#include "src/comm/c10d/device_reduce.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace tt::comm::c10d {

void reduce_tensors(const at::Tensor& parts, ReduceOp op, const at::Tensor& result) {
  const at::NoGradGuard no_grad;
  const bool is_short = parts.is_floating_point() && parts.element_size() == 2;
  const at::ScalarType wide = is_short ? at::kFloat : parts.scalar_type();
  at::Tensor all = parts[0].to(wide, /*non_blocking=*/false, /*copy=*/true);
  for (std::int64_t rank = 1; rank < parts.size(0); ++rank) {
    const at::Tensor part = parts[rank].to(wide);
    if (op == ReduceOp::kSum)
      all.add_(part);
    else
      at::maximum_out(all, all, part);
  }
  result.copy_(all);
}

}  // namespace tt::comm::c10d

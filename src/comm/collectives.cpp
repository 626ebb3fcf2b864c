#include "tensor_tracer/comm/collectives.h"

#include <ATen/ATen.h>

#include <cstdint>

namespace tt::comm {

void broadcast_text(const ProcessGroup& group, std::string& text, int root) {
  at::Tensor size =
      at::full({1}, static_cast<std::int64_t>(text.size()), at::device(at::kCPU).dtype(at::kLong));
  group.broadcast(size, root);
  text.resize(static_cast<std::size_t>(size.item<std::int64_t>()));
  at::Tensor bytes =
      at::from_blob(text.data(), {static_cast<std::int64_t>(text.size())}, at::kByte);
  group.broadcast(bytes, root);
}

double sum_over(const ProcessGroup& group, double value) {
  at::Tensor sum = at::full({1}, value, at::device(at::kCPU).dtype(at::kDouble));
  group.all_reduce(sum);
  return sum.item<double>();
}

bool all_of(const ProcessGroup& group, bool own) {
  return sum_over(group, own ? 1.0 : 0.0) == group.size();
}

}  // namespace tt::comm

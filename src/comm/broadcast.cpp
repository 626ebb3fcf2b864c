#include "tensor_tracer/comm/broadcast.h"

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

}  // namespace tt::comm

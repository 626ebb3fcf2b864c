#pragma once

#include <cstddef>
#include <string>

#include "tensor_tracer/comm/process_group.h"

namespace tt::control {

/// Broadcasts bytes of rank 0; `size` is the same on every rank. Collective.
inline void broadcast(const comm::ProcessGroup& group, void* bytes, std::size_t size) {
  group.broadcast_bytes(comm::host_bytes({static_cast<std::byte*>(bytes), size}), 0).wait();
}

/// Broadcasts a text of rank 0, which has `size` bytes. Collective.
inline void broadcast(const comm::ProcessGroup& group, std::string& text, std::size_t size) {
  text.resize(size);
  broadcast(group, text.data(), size);
}

}  // namespace tt::control

#pragma once

#include <memory>

#include "tensor_tracer/comm/process_group.h"

namespace tt::comm {

/// What went over a group since it was made, on one rank. A group of one rank is not asked for
/// anything by ProcessGroup and counts nothing.
struct Traffic {
  int collectives = 0;    // those of tensors
  int broadcasts = 0;     // of bytes
  int gathers = 0;        // of bytes
  std::size_t bytes = 0;  // of the broadcasts of bytes
  int messages() const { return collectives + broadcasts + gathers; }
};

/// `group`, which it works on, with what goes over it added to `traffic`. Groups that are split off
/// are not counted. Thread: as `group`.
ProcessGroup make_counting(const ProcessGroup& group, std::shared_ptr<Traffic> traffic);

}  // namespace tt::comm

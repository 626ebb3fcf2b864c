#pragma once

#include "tensor_tracer/comm/process_group.h"

namespace tt::train {

/// Whether every rank could. Collective.
bool all_ranks_ok(const comm::ProcessGroup& group, bool could);

}  // namespace tt::train

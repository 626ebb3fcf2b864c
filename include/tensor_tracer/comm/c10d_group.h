#pragma once

#include <string>

#include "tensor_tracer/comm/process_group.h"

namespace tt::comm {

/// The process group that PyTorch's registry has under this name (`group.group_name` in Python),
/// through its backend for the CPU. It cannot be split. The trainer that made the group ends it.
/// The caller must use a group that no other code uses, because operations of a group must have the
/// same order on all its ranks. Throws CommError if there is no such group or it has no backend for
/// the CPU.
ProcessGroup c10d_group(const std::string& name);

}  // namespace tt::comm

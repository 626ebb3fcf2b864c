#pragma once

#include <sys/types.h>

#include <string>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/base/scoped_fd.h"

namespace tt::base {

/// Keeps every other hub out of a run directory until the descriptor and its copies, those of other
/// processes too, are closed: a lock on the file `lock` in it. Waits 2 s for a hub that is just
/// ending. The error's code is "run_dir_in_use", and its message names the process that has the
/// directory. Where the file system knows no locks, a warning goes to standard error and no hub is
/// kept out.
Result<ScopedFd> lock_run_dir(const std::string& run_dir);

/// Writes the process that the error names: one that has a copy of the descriptor.
void write_lock_holder(const ScopedFd& lock, pid_t process);

}  // namespace tt::base

#pragma once

#include <string>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/base/scoped_fd.h"

namespace tt::cli {

/// Keeps every other hub out of a run directory until the descriptor is closed, at the latest by
/// the end of this process: a lock on the file `lock` in it. Waits 2 s for a hub that is just
/// ending. The error's code is "run_dir_in_use", and its message names the process that has the
/// directory. Where the file system knows no locks, a warning is logged and nobody is kept out.
base::Result<base::ScopedFd> lock_run_dir(const std::string& run_dir);

}  // namespace tt::cli

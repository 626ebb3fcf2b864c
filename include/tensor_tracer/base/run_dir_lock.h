#pragma once

#include <sys/types.h>

#include <string>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/base/scoped_fd.h"

namespace tt::base {

/// Locks the file `lock` in a run directory, so that no other hub uses the directory. The lock
/// lasts until the descriptor and all its copies, also those in other processes, are closed. Waits
/// up to 2 s for a hub that is just ending. The error's code is "run_dir_in_use", and its message
/// names the process that uses the directory. If the file system has no locks, writes a warning to
/// standard error and keeps no hub out.
Result<ScopedFd> lock_run_dir(const std::string& run_dir);

/// The same for any file in a folder that one run uses. `option`: names the folder, for the error.
Result<ScopedFd> lock_file(const std::string& path, const std::string& option);

/// True while a process holds the lock of lock_run_dir().
bool is_run_dir_locked(const std::string& run_dir);

/// Writes into the lock file the process that the error names: a process that has a copy of the
/// descriptor.
void write_lock_holder(const ScopedFd& lock, pid_t process);

}  // namespace tt::base

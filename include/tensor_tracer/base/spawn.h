#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/base/scoped_fd.h"

namespace tt::base {

struct SpawnOptions {
  std::string program;                      // a path; not searched for in PATH
  std::vector<std::string> arguments;       // without the program itself
  std::vector<std::pair<int, int>> passed;  // (our descriptor, the child's, at least 3)
  int input = -1;                           // descriptor that becomes stdin; -1: /dev/null
  std::string output;                       // stdout and stderr are appended here; empty: inherited
  bool new_session = false;
};

/// Starts a program without a shell and without fork, so it is safe before and after any library
/// starts. The program gets stdin from /dev/null or `input`, the descriptors named and no others,
/// no blocked signals, and the environment without the variables that MPI's launchers add. Thread:
/// any. Owner: the caller waits for the process.
Result<pid_t> spawn(const SpawnOptions& options);

/// A pipe; both ends are closed on exec. The first descriptor is the reading end.
Result<std::pair<ScopedFd, ScopedFd>> make_pipe();

/// The bytes that arrive in a pipe until its writing ends are closed, or until `end`.
std::string read_until(const ScopedFd& pipe, std::chrono::steady_clock::time_point end);

}  // namespace tt::base

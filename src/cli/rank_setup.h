#pragma once

#include <functional>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/comm/launcher.h"
#include "tensor_tracer/comm/process_group.h"

/// Steps that the commands that run a model on several ranks share.
namespace tt::cli {

/// Prints an error that a rank finds before the ranks meet, and returns the exit code. Usually
/// every rank finds the same error: rank 0 prints it and ends, and mpirun ends the other ranks. A
/// rank that still runs after that has an error that rank 0 does not have, and prints it.
int refuse(const base::Error& error, int rank);

/// The value of --threads; for 0, the allowed CPUs divided by the ranks on the node.
int threads_per_rank(int threads, const comm::Launch& launch);

/// Starts the backend of the launcher and runs `body` with all ranks. `threads`: of --threads.
/// Returns the exit code of `body`; after an exception, which is printed, all ranks end.
int run_on_ranks(int threads, const comm::Launch& launch,
                 const std::function<int(const comm::ProcessGroup& world)>& body);

/// A step frees memory that the next step allocates again. If the memory stays in the heap, it
/// causes no page faults (measured: 8 to 15 % of a step's CPU time, docs/benchmarks.md). glibc
/// accepts at most 32 MiB. Thread: any, once.
void keep_freed_memory();

}  // namespace tt::cli

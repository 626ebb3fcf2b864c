#include "src/cli/rank_setup.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <limits>
#include <string>
#include <thread>

#include "src/cli/exit_code.h"
#include "tensor_tracer/base/check.h"
#include "tensor_tracer/comm/world.h"

namespace tt::cli {
namespace {

// The time mpirun gets to end the other ranks after rank 0 has ended; mpirun needs about a
// hundredth of it.
constexpr auto kTimeToEnd = std::chrono::seconds(2);

}  // namespace

int refuse(const base::Error& error, int rank) {
  if (rank == 0) {
    fmt::print(stderr, "tensor-tracer: {}\n", to_string(error));
  } else {
    std::this_thread::sleep_for(kTimeToEnd);
    fmt::print(stderr, "tensor-tracer: rank {}: {}\n", rank, to_string(error));
  }
  return kExitUsage;
}

int threads_per_rank(int threads, const comm::Launch& launch) {
  if (threads > 0) return threads;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  return std::max(1, CPU_COUNT(&allowed) / launch.local_size);
}

int run_on_ranks(int threads, const comm::Launch& launch,
                 const std::function<int(const comm::ProcessGroup& world)>& body) {
  keep_freed_memory();
  at::set_num_threads(threads_per_rank(threads, launch));
  const comm::World world(launch);
  base::set_rank_label("rank " + std::to_string(launch.rank));
  try {
    return body(world.group());
  } catch (const std::exception& error) {
    fmt::print(stderr, "tensor-tracer: rank {}: {}\n", launch.rank, error.what());
    if (launch.is_launched()) world.abort(kExitFailure);
    return kExitFailure;
  }
}

void keep_freed_memory() {
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
  ::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

}  // namespace tt::cli

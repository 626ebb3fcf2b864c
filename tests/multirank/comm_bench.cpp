// comm_bench: MPI's collectives against ours on groups of one node, f32 and bf16.
//   mpirun -np 2 build/…/bin/comm_bench
#include <ATen/ATen.h>
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <utility>
#include <vector>

#include "src/comm/mpi/shared_collectives.h"
#include "src/comm/mpi/transfer.h"
#include "tensor_tracer/comm/world.h"

namespace tt::comm {
namespace {

using detail::Elements;
using detail::SharedSegment;

constexpr std::size_t kSmallest = std::size_t{1} << 10;
constexpr std::size_t kLargest = std::size_t{16} << 20;

/// Median and best microseconds of one call, on rank 0.
struct Times {
  double median;
  double best;
};

double seconds_of(const std::function<void()>& call) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  call();
  return MPI_Wtime() - start;
}

Times summary(std::vector<double>& seconds) {
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2] * 1e6, seconds[0] * 1e6};
}

/// Both by turns, so that a busy machine slows both, each on an input that was just written, as in
/// training: bytes that no one has written since are already in the reader's cache.
void compare(const char* name, at::Tensor& input, const std::function<void()>& mpi,
             const std::function<void()>& shared, bool print) {
  const std::size_t bytes = input.nbytes();
  const int repeats = bytes < (1 << 18) ? 300 : 60;
  std::vector<double> mpi_seconds;
  std::vector<double> shared_seconds;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    input.fill_(1);
    mpi_seconds.push_back(seconds_of(mpi));
    input.fill_(1);
    shared_seconds.push_back(seconds_of(shared));
  }
  const Times mpi_times = summary(mpi_seconds);
  const Times shared_times = summary(shared_seconds);
  if (!print) return;
  std::printf("%-15s %8zu KiB   %9.1f (%9.1f)   %9.1f (%9.1f)   %5.2f\n", name, bytes >> 10,
              mpi_times.median, mpi_times.best, shared_times.median, shared_times.best,
              mpi_times.median / shared_times.median);
}

void compare_all(SharedSegment& segment, at::ScalarType dtype, std::size_t bytes) {
  const bool print = segment.rank() == 0;
  const int size = segment.size();
  const auto item = c10::elementSize(dtype);
  const Elements whole{static_cast<std::int64_t>(bytes / item), dtype};
  const Elements part{whole.count / size, dtype};
  at::Tensor data = at::zeros({whole.count}, dtype);
  at::Tensor other = at::zeros({whole.count}, dtype);
  void* a = data.mutable_data_ptr();
  void* b = other.mutable_data_ptr();
  const ReduceOp sum = ReduceOp::kSum;
  compare(
      "all_reduce", data, [&] { detail::mpi_all_reduce(MPI_COMM_WORLD, a, whole, sum); },
      [&] { detail::shared_all_reduce(segment, a, whole, sum); }, print);
  compare(
      "reduce_scatter", data, [&] { detail::mpi_reduce_scatter(MPI_COMM_WORLD, a, b, part, sum); },
      [&] { detail::shared_reduce_scatter(segment, a, b, part, sum); }, print);
  compare(
      "all_gather", data, [&] { detail::mpi_all_gather(MPI_COMM_WORLD, a, b, part.bytes()); },
      [&] { detail::shared_all_gather(segment, a, b, part.bytes()); }, print);
  compare(
      "broadcast", data, [&] { detail::mpi_broadcast(MPI_COMM_WORLD, a, bytes, 0); },
      [&] { detail::shared_broadcast(segment, a, bytes, 0); }, print);
}

/// The cost of the log of collectives: the same small all-reduce on a group that is recorded and on
/// one that is not, by turns; and the record alone.
void compare_log(const ProcessGroup& world) {
  constexpr int kRounds = 200, kCalls = 500;
  CollectiveLog log(world.rank());
  const ProcessGroup plain = world.split(0, world.rank());
  const ProcessGroup recorded = world.split(0, world.rank());
  recorded.record_into(log);
  at::Tensor tensor = at::zeros({16});
  std::vector<double> without, with, alone;
  const auto calls = [&](const ProcessGroup& group) {
    for (int i = 0; i < kCalls; ++i) group.all_reduce(tensor);
  };
  for (int round = 0; round < kRounds; ++round) {
    without.push_back(seconds_of([&] { calls(plain); }) / kCalls);
    with.push_back(seconds_of([&] { calls(recorded); }) / kCalls);
    alone.push_back(seconds_of([&] {
                      for (int i = 0; i < kCalls; ++i)
                        log.end(log.begin(0, {"all_reduce sum", 64, 6}));
                    }) /
                    kCalls);
  }
  if (world.rank() != 0) return;
  for (const auto& [name, times] :
       {std::pair("not recorded", &without), std::pair("recorded", &with),
        std::pair("the record", &alone)}) {
    const Times of = summary(*times);
    std::printf("all_reduce of 64 bytes, %-12s %9.3f (%9.3f)\n", name, of.median, of.best);
  }
}

int run() {
  const auto launch = detect_launch(process_environment());
  if (!launch.ok() || launch.value().world_size < 2) {
    std::fprintf(stderr, "start with mpirun -np 2 or more\n");
    return 2;
  }
  try {
    const World world(launch.value());
    compare_log(world.group());
    const auto segment = SharedSegment::create(MPI_COMM_WORLD);
    if (!segment) return 1;
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      if (segment->rank() == 0) {
        std::printf("%s, %d ranks; microseconds, median (best)\n%-15s %12s   %21s   %21s   ratio\n",
                    c10::toString(dtype), segment->size(), "", "bytes", "MPI", "shared memory");
      }
      for (std::size_t bytes = kSmallest; bytes <= kLargest; bytes *= 4)
        compare_all(*segment, dtype, bytes);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
  return 0;
}

}  // namespace
}  // namespace tt::comm

int main() { return tt::comm::run(); }

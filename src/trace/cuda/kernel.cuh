#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "src/trace/device/launcher.h"
#include "src/trace/device/reducers.h"

namespace tt::trace::device {

constexpr int kBlockThreads = 256;

/// kThreads neighbouring threads of a block of kBlock: the whole block, or a part of a warp.
template <int kThreads, int kBlock = kBlockThreads>
class BlockTeam {
 public:
  __device__ int size() const { return kThreads; }
  template <typename Act>
  __device__ void each(const Act& act) {
    act(static_cast<int>(threadIdx.x % kThreads));
    wait();
  }
  template <typename T>
  __device__ T value(const T& shared) {
    const T read = shared;
    wait();
    return read;
  }
  template <typename T>
  __device__ T add(T* number, T n) {
    return atomicAdd(number, n);
  }
  __device__ void take_least(double* number, double x) {
    replace(
        number, x, [](double a, double b) { return a < b; });
  }
  __device__ void take_most(double* number, double x) {
    replace(
        number, x, [](double a, double b) { return a > b; });
  }

 private:
  static_assert(kThreads == kBlock || 32 % kThreads == 0);

  __device__ void wait() {
    if constexpr (kThreads == kBlock) {
      __syncthreads();
    } else {
      const unsigned lane = threadIdx.x % 32;
      __syncwarp((0xffffffffU >> (32 - kThreads)) << (lane / kThreads * kThreads));
    }
  }

  template <typename IsBetter>
  __device__ static void replace(double* number, double x, const IsBetter& is_better) {
    auto* const bits = reinterpret_cast<unsigned long long*>(number);
    unsigned long long seen = *reinterpret_cast<volatile unsigned long long*>(bits);
    while (is_better(x, __longlong_as_double(static_cast<long long>(seen)))) {
      const unsigned long long before =
          atomicCAS(bits, seen, static_cast<unsigned long long>(__double_as_longlong(x)));
      if (before == seen) return;
      seen = before;
    }
  }
};

template <typename Reducer>
__global__ void start_tail(Reducer reducer, std::byte* tail) {
  reducer.start(tail);
}

template <typename Reducer>
__global__ void __launch_bounds__(kBlockThreads) pack_part(PackJob job, Reducer reducer) {
  constexpr int kTeams = kBlockThreads / Reducer::kThreads;
  __shared__ typename Reducer::Shared shared[kTeams];
  const int own = static_cast<int>(threadIdx.x) / Reducer::kThreads;
  BlockTeam<Reducer::kThreads> team;
  pack_cells(team, job, reducer, shared[own], std::int64_t{blockIdx.x} * kTeams + own,
             std::int64_t{gridDim.x} * kTeams);
}

inline void check(cudaError_t error) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(error));
}

/// Blocks that the current device runs at once, about.
inline std::int64_t blocks_at_once() {
  constexpr int kBlocksOfProcessor = 8;
  int device = 0, processors = 0;
  check(cudaGetDevice(&device));
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
  return std::int64_t{processors} * kBlocksOfProcessor;
}

template <typename Reducer>
void launch_pack(const PackJob& job, const Reducer& reducer, void* stream) {
  constexpr std::int64_t kTeams = kBlockThreads / Reducer::kThreads;
  const auto on = static_cast<cudaStream_t>(stream);
  if (job.tail != nullptr) start_tail<<<1, 1, 0, on>>>(reducer, job.tail);
  const std::int64_t blocks = std::min((job.cells() + kTeams - 1) / kTeams, blocks_at_once());
  if (blocks > 0) pack_part<<<static_cast<unsigned>(blocks), kBlockThreads, 0, on>>>(job, reducer);
  check(cudaGetLastError());
}

template <typename Join>
__global__ void __launch_bounds__(Join::kThreads) join_cells(const __grid_constant__ Join join) {
  __shared__ typename Join::Shared shared;
  BlockTeam<Join::kThreads, Join::kThreads> team;
  join_parts(team, join, shared, blockIdx.x, gridDim.x);
}

template <typename Join>
__global__ void __launch_bounds__(Join::kThreads) finish_join(const __grid_constant__ Join join) {
  __shared__ typename Join::Shared shared;
  BlockTeam<Join::kThreads, Join::kThreads> team;
  join.finish(team, shared);
}

template <typename Join>
void launch_join(const Join& join, void* stream) {
  static_assert(sizeof(Join) <= 4096, "the limit of a kernel's arguments");
  const auto on = static_cast<cudaStream_t>(stream);
  const auto blocks = static_cast<unsigned>(std::min(join.teams(), blocks_at_once()));
  join_cells<<<blocks, Join::kThreads, 0, on>>>(join);
  finish_join<<<1, Join::kThreads, 0, on>>>(join);
  check(cudaGetLastError());
}

template <template <typename> typename... Reducers>
void register_for_all_elements() {
  ((Launcher<Reducers<float>>::launch = launch_pack<Reducers<float>>), ...);
  ((Launcher<Reducers<double>>::launch = launch_pack<Reducers<double>>), ...);
  ((Launcher<Reducers<BFloat16>>::launch = launch_pack<Reducers<BFloat16>>), ...);
  ((Launcher<Reducers<Half>>::launch = launch_pack<Reducers<Half>>), ...);
}

// Each in the file of that name.
void register_tile();
void register_stats();
void register_projection();
void register_best();
void register_softmax();

}  // namespace tt::trace::device

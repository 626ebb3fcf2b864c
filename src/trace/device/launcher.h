#pragma once

#include "src/trace/device/reducers.h"

namespace tt::trace::device {

/// The kernel of a Reducer; null: the build has no kernels for a device. A kernel is launched on
/// the stream of the device's runtime, and throws std::runtime_error if that fails. The memory of
/// the job must live until the stream has done it.
template <typename Reducer>
struct Launcher {
  using Launch = void (*)(const PackJob& job, const Reducer& reducer, void* stream);
  static inline Launch launch = nullptr;
};

/// The kernels of a Join (device/join.h), as Launcher.
template <typename Join>
struct JoinLauncher {
  using Launch = void (*)(const Join& join, void* stream);
  static inline Launch launch = nullptr;
};

/// Sets the launchers; false: this build has no kernels. cuda/ defines it.
bool register_cuda_kernels();

/// True if the launchers are set.
inline bool has_kernels() {
  static const bool is_built = register_cuda_kernels();
  return is_built || Launcher<CopyReducer<float>>::launch != nullptr;
}

}  // namespace tt::trace::device

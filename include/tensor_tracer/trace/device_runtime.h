#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace tt::trace {

/// What a device has been given to do up to some point.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  virtual bool is_done() const = 0;
  virtual void wait() const = 0;
};

/// The side stream of a device, for gathers and copies to the host: neither the host nor the
/// stream that computes waits for them. Thread: any, but one at a time.
class DeviceRuntime {
 public:
  virtual ~DeviceRuntime() = default;
  virtual at::Device device() const = 0;
  /// Runs `body` with the side stream as the current stream. What `body` gives the device runs
  /// after what the current stream was given before. The event: all this is done.
  virtual std::unique_ptr<DeviceEvent> run_aside(const std::function<void()>& body) = 0;
  /// Host memory that the device copies to without stopping the host: uint8 [bytes].
  virtual at::Tensor host_memory(std::int64_t bytes) const = 0;
};

/// True if this build has the kernels of the compressors for CUDA.
bool has_cuda_kernels();

/// The runtime of a device, which libtorch must support; null: the CPU, whose tensors need none.
std::shared_ptr<DeviceRuntime> runtime_of(at::Device device);

}  // namespace tt::trace

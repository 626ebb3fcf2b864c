#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "src/trace/device/launcher.h"
#include "tensor_tracer/trace/device_runtime.h"

namespace tt::trace {
namespace {

class StreamEvent final : public DeviceEvent {
 public:
  explicit StreamEvent(const c10::Stream& stream) : event_(stream.device_type()) {
    event_.record(stream);
  }
  bool is_done() const override { return event_.query(); }
  void wait() const override { event_.synchronize(); }

 private:
  c10::Event event_;
};

class StreamRuntime final : public DeviceRuntime {
 public:
  explicit StreamRuntime(at::Device device)
      : guard_(device.type()), side_(guard_.getStreamFromGlobalPool(device)) {}

  at::Device device() const override { return side_.device(); }

  std::unique_ptr<DeviceEvent> run_aside(const std::function<void()>& body) override {
    c10::Event given(side_.device_type());
    given.record(guard_.getStream(side_.device()));
    given.block(side_);
    const c10::StreamGuard aside(side_);
    body();
    return std::make_unique<StreamEvent>(side_);
  }

  at::Tensor host_memory(std::int64_t bytes) const override {
    return at::empty({bytes}, at::device(at::kCPU).dtype(at::kByte).pinned_memory(true));
  }

 private:
  const c10::impl::VirtualGuardImpl guard_;
  const c10::Stream side_;
};

}  // namespace

bool has_cuda_kernels() { return device::has_kernels(); }

std::shared_ptr<DeviceRuntime> runtime_of(at::Device device) {
  if (device.is_cpu()) return nullptr;
  return std::make_shared<StreamRuntime>(device);
}

}  // namespace tt::trace

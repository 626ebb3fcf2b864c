#include <algorithm>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>

#include "src/comm/c10d/group.h"
#include "tensor_tracer/comm/c10d_group.h"

namespace tt::comm {

ProcessGroup c10d_group(const std::string& name) try {
  const auto group = ::c10d::resolve_process_group(name);
  c10d::Backends backends = {group->getBackend(c10::DeviceType::CPU)};
  // The trainer's NCCL: only PyTorch knows its headers.
  if (std::ranges::any_of(group->getDeviceTypes(), &c10::Device::is_cuda))
    backends.cuda = group->getBackend(c10::DeviceType::CUDA);
  const auto job = std::make_shared<c10d::Job>();
  job->make = [backends = std::move(backends), name](const std::string& asked, int, int) {
    if (asked == name) return backends;
    throw CommError("a group of the trainer cannot be split");
  };
  return ProcessGroup(c10d::make_group(job, name, group->getRank(), group->getSize()));
} catch (const c10::Error& error) {
  throw CommError("group \"" + name + "\": " + error.what_without_backtrace());
}

}  // namespace tt::comm

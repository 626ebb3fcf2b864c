#include "src/comm/c10d/gloo.h"

#include <chrono>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace tt::comm::c10d {
namespace {

using ::c10d::ProcessGroupGloo;

// A rank may wait for as long as the run is paused; the end of a process closes its sockets, which
// ends the waiting of the others.
constexpr std::chrono::hours kNeverTooLong{24 * 365};

c10::intrusive_ptr<::c10d::Store> store_of(const Launch& launch) {
  ::c10d::TCPStoreOptions options;
  options.port = launch.store.port;
  options.isServer = launch.store.is_hosted && launch.rank == 0;
  options.waitWorkers = false;
  auto store = c10::make_intrusive<::c10d::TCPStore>(launch.store.host, options);
  // Torchrun keeps its store when it starts the ranks again.
  return c10::make_intrusive<::c10d::PrefixStore>(
      "tensor_tracer/" + std::to_string(launch.store.attempt), std::move(store));
}

c10::intrusive_ptr<ProcessGroupGloo::Options> options_of(const Launch& launch) {
  if (launch.local_size != launch.world_size)
    return ProcessGroupGloo::Options::create_default(kNeverTooLong);
  auto options = ProcessGroupGloo::Options::create(kNeverTooLong);
  options->devices = {ProcessGroupGloo::createDeviceForHostname("127.0.0.1")};
  return options;
}

}  // namespace

MakeBackends gloo_groups(const Launch& launch) {
  return [store = store_of(launch), options = options_of(launch)](const std::string& name, int rank,
                                                                  int size) -> Backends {
    return {c10::make_intrusive<ProcessGroupGloo>(
        c10::make_intrusive<::c10d::PrefixStore>(name, store), rank, size, options)};
  };
}

}  // namespace tt::comm::c10d

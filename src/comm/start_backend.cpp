#include <string>

#include "src/comm/backend.h"
#include "src/comm/c10d/backend.h"
#include "src/comm/local/backend.h"
#include "src/comm/mpi/backend.h"

namespace tt::comm {
namespace {

struct Entry {
  const char* name;
  const char* library;  // as --distributed-backend names it
  const char* option;   // of CMake
  bool (*is_available)();
  std::unique_ptr<detail::Backend> (*start)(const Launch&, const WorldOptions&);
};

Entry backend_for(const Launch& launch) {
  if (launch.uses_mpi()) return {"mpi", "mpi", "TT_WITH_MPI", mpi::is_available, mpi::start};
  if (launch.is_launched())
    return {"c10d", "gloo", "TT_WITH_C10D", c10d::is_available, c10d::start};
  return {"local", "", "", local::is_available, local::start};
}

base::Status check_asked(const Launch& launch, const std::string& used, const std::string& asked) {
  constexpr const char* kOption = "--distributed-backend";
  if (asked == "nccl")
    return base::invalid_argument(
        kOption, "nccl moves tensors between GPUs, but this program trains on CPUs",
        "leave the option out, or attach to a training of PyTorch on GPUs (docs/attach.md)");
  if (asked == "auto" || used.empty() || asked == used) return {};
  return base::invalid_argument(
      kOption, launch.launcher + " connects ranks by " + used + ", not by " + asked,
      asked == "gloo" ? "start the program with torchrun" : "start the program with mpirun");
}

}  // namespace

base::Status check_backend(const Launch& launch, const std::string& asked) {
  const Entry backend = backend_for(launch);
  if (auto status = check_asked(launch, backend.library, asked); !status) return status;
  if (backend.is_available()) return {};
  return base::Error{"invalid_environment",
                     launch.launcher + " started this process as rank " +
                         std::to_string(launch.rank) + " of " + std::to_string(launch.world_size) +
                         ", but this program was built without the backend " + backend.name,
                     "",
                     std::string("build it with -D") + backend.option +
                         "=ON, or start one rank without a launcher"};
}

namespace detail {

std::unique_ptr<Backend> start_backend(const Launch& launch, const WorldOptions& options) {
  if (const base::Status usable = check_backend(launch); !usable)
    throw CommError(to_string(usable.error()));
  return backend_for(launch).start(launch, options);
}

}  // namespace detail
}  // namespace tt::comm

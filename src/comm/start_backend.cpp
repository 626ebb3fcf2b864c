#include <string>

#include "src/comm/backend.h"
#include "src/comm/c10d/backend.h"
#include "src/comm/local/backend.h"
#include "src/comm/mpi/backend.h"

namespace tt::comm {
namespace {

struct Entry {
  const char* name;
  const char* option;  // of CMake
  bool (*is_available)();
  std::unique_ptr<detail::Backend> (*start)(const Launch&, const WorldOptions&);
};

Entry backend_for(const Launch& launch) {
  if (launch.uses_mpi()) return {"mpi", "TT_WITH_MPI", mpi::is_available, mpi::start};
  if (launch.is_launched()) return {"c10d", "TT_WITH_C10D", c10d::is_available, c10d::start};
  return {"local", "", local::is_available, local::start};
}

}  // namespace

base::Status check_backend(const Launch& launch) {
  const Entry backend = backend_for(launch);
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

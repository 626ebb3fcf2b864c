#include "tensor_tracer/comm/world.h"

#include <unistd.h>

#include <exception>

#include "src/comm/mpi/mpi_world.h"

namespace tt::comm {

World::World(const Launch& launch, WorldOptions options) {
  if (!launch.uses_mpi()) return;
  group_ = ProcessGroup(detail::start_mpi(launch, options));
  initialised_ = true;
}

World::~World() {
  group_ = ProcessGroup();
  if (initialised_ && std::uncaught_exceptions() == 0) detail::finish_mpi();
}

void World::abort(int exit_code) const {
  if (initialised_) detail::abort_mpi(exit_code);
  _exit(exit_code);
}

}  // namespace tt::comm

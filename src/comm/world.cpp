#include "tensor_tracer/comm/world.h"

#include <unistd.h>

#include <exception>

#include "src/comm/backend.h"

namespace tt::comm {

World::World(const Launch& launch, WorldOptions options)
    : backend_(detail::start_backend(launch, options)), group_(backend_->world()) {}

World::~World() {
  group_ = ProcessGroup();
  if (std::uncaught_exceptions() == 0) backend_->finish();
}

void World::abort(int exit_code) const {
  backend_->abort(exit_code);
  _exit(exit_code);
}

}  // namespace tt::comm

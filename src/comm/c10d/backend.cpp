#include "src/comm/c10d/backend.h"

#include <unistd.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>

#include "src/comm/c10d/gloo.h"
#include "src/comm/c10d/group.h"

namespace tt::comm::c10d {
namespace {

class C10dBackend final : public detail::Backend {
 public:
  C10dBackend(std::shared_ptr<Job> job, std::shared_ptr<detail::GroupImpl> world)
      : job_(std::move(job)), world_(std::move(world)) {}
  std::shared_ptr<detail::GroupImpl> world() const override { return world_; }
  void finish() override {
    world_->barrier();  // rank 0 may host the store
    job_->make = nullptr;
    world_.reset();
  }
  // Torchrun ends the other ranks.
  void abort(int exit_code) const override { ::_exit(exit_code); }

 private:
  const std::shared_ptr<Job> job_;
  std::shared_ptr<detail::GroupImpl> world_;
};

std::shared_ptr<Job> start_job(const Launch& launch) try {
  return std::make_shared<Job>(Job{.make = gloo_groups(launch)});
} catch (const std::exception& error) {
  throw CommError("rank " + std::to_string(launch.rank) + " did not reach the store at " +
                  launch.store.host + ":" + std::to_string(launch.store.port) +
                  " (MASTER_ADDR, MASTER_PORT): " + error.what());
}

}  // namespace

bool is_available() { return true; }

std::unique_ptr<detail::Backend> start(const Launch& launch, const WorldOptions&) {
  const std::shared_ptr<Job> job = start_job(launch);
  return std::make_unique<C10dBackend>(job,
                                       make_group(job, "world", launch.rank, launch.world_size));
}

}  // namespace tt::comm::c10d

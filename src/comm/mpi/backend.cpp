#include "src/comm/mpi/backend.h"

#include <mpi.h>

#include <cstdlib>
#include <string>

#include "src/comm/mpi/communicator.h"
#include "src/comm/mpi/group.h"
#include "tensor_tracer/base/check.h"

namespace tt::comm::mpi {
namespace {

using detail::check_mpi;

/// Call it before MPI_Init, which reads the environment.
void leave_out_tcp(const Launch& launch) {
  if (launch.local_size != launch.world_size) return;
  for (const char* choice :
       {"OMPI_MCA_btl", "OMPI_MCA_btl_base_include", "OMPI_MCA_btl_base_exclude"})
    if (std::getenv(choice) != nullptr) return;
  ::setenv("OMPI_MCA_btl_base_exclude", "tcp", 1);
}

void check_numbers(const Launch& launch) {
  const int rank = detail::mpi_rank(MPI_COMM_WORLD);
  const int size = detail::mpi_size(MPI_COMM_WORLD);
  if (rank != launch.rank || size != launch.world_size) {
    throw CommError("the launcher (" + launch.launcher + ") says rank " +
                    std::to_string(launch.rank) + " of " + std::to_string(launch.world_size) +
                    ", MPI says rank " + std::to_string(rank) + " of " + std::to_string(size) +
                    "; start the program with the mpirun or srun plug-in of the MPI library that "
                    "it is linked with");
  }
}

/// Open MPI finds the ranks of srun by PMIx alone; with another plug-in MPI_Init ends the process.
void check_plug_in(const Launch& launch) {
#ifdef OPEN_MPI
  if (launch.launcher == "Slurm" && std::getenv("PMIX_RANK") == nullptr)
    throw CommError(
        "srun started the ranks without PMIx, which Open MPI needs; use srun --mpi=pmix");
#endif
}

void start_library(const Launch& launch) {
  check_plug_in(launch);
  int initialised = 0;
  MPI_Initialized(&initialised);
  TT_CHECK(initialised == 0, "MPI was started before in this process");
  leave_out_tcp(launch);
  int level = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread",
            MPI_COMM_WORLD);
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler",
            MPI_COMM_WORLD);
  if (level < MPI_THREAD_SERIALIZED) {
    throw CommError("this MPI library gives thread level " + std::to_string(level) +
                    ", MPI_THREAD_SERIALIZED (" + std::to_string(MPI_THREAD_SERIALIZED) +
                    ") is needed");
  }
}

class MpiBackend final : public detail::Backend {
 public:
  explicit MpiBackend(std::shared_ptr<detail::GroupImpl> world) : world_(std::move(world)) {}
  std::shared_ptr<detail::GroupImpl> world() const override { return world_; }
  void finish() override {
    world_.reset();
    MPI_Finalize();
  }
  void abort(int exit_code) const override { MPI_Abort(MPI_COMM_WORLD, exit_code); }

 private:
  std::shared_ptr<detail::GroupImpl> world_;
};

}  // namespace

bool is_available() { return true; }

std::unique_ptr<detail::Backend> start(const Launch& launch, const WorldOptions& options) {
  start_library(launch);
  check_numbers(launch);
  MPI_Comm world = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &world), "MPI_Comm_dup", MPI_COMM_WORLD);
  return std::make_unique<MpiBackend>(detail::make_mpi_group(world, options.shared_memory));
}

}  // namespace tt::comm::mpi

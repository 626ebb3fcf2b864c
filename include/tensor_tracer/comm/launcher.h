#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tensor_tracer/base/result.h"

namespace tt::comm {

/// Facts about this process from the launcher's environment, known before MPI_Init.
struct Launch {
  std::string launcher;  // "Open MPI", "Slurm", "PMIx" or "none"
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_size = 1;
  bool uses_mpi() const { return launcher != "none"; }
};

using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// Reads the environment of this process.
Environment process_environment();

/// Reads OMPI_COMM_WORLD_*, else Slurm's step variables with PMIx; without both there is one rank.
/// Error: a torchrun environment (RANK and WORLD_SIZE > 1, no MPI): "use mpirun"; several srun
/// tasks without an MPI plug-in; numbers that do not parse or contradict each other.
base::Result<Launch> detect_launch(const Environment& environment);

}  // namespace tt::comm

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tensor_tracer/base/result.h"

namespace tt::comm {

/// The key-value store where the ranks of torchrun meet (MASTER_ADDR, MASTER_PORT).
struct RankStore {
  std::string host;
  std::uint16_t port = 0;
  bool is_hosted = true;  // by rank 0; false: torchrun hosts it (TORCHELASTIC_USE_AGENT_STORE)
  int attempt = 0;        // TORCHELASTIC_RESTART_COUNT
};

/// Facts about this process from the launcher's environment, known before MPI_Init.
struct Launch {
  std::string launcher;  // "Open MPI", "Slurm", "PMIx", "torchrun" or "none"
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_size = 1;
  RankStore store = {};  // of torchrun
  bool is_launched() const { return launcher != "none"; }
  bool uses_mpi() const { return is_launched() && launcher != "torchrun"; }
};

using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// Reads the environment of this process.
Environment process_environment();

/// Reads OMPI_COMM_WORLD_*, else Slurm's step variables with PMIx, else the variables of torchrun
/// (RANK, WORLD_SIZE, …); without them there is one rank. Error: several srun tasks without an MPI
/// plug-in; variables of torchrun that are missing; numbers that do not parse or contradict each
/// other.
base::Result<Launch> detect_launch(const Environment& environment);

}  // namespace tt::comm

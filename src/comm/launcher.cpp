#include "tensor_tracer/comm/launcher.h"

#include <charconv>
#include <cstdlib>
#include <initializer_list>

namespace tt::comm {
namespace {

using base::Error;
using base::Result;

constexpr const char* kUseLauncher =
    "start the program with mpirun -np N, or with torchrun --no-python --nproc-per-node N";

Result<int> parse_number(const std::string& name, const std::string& text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [parsed_to, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc() || parsed_to != end || value < 0) {
    return Error{"invalid_environment", "\"" + text + "\" is not a number of 0 or more", name,
                 "unset it or start the program with mpirun"};
  }
  return value;
}

/// Reads numbers and keeps the first error, so that the caller checks for errors once at the end.
class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  bool has(const std::string& name) const { return environment_(name).has_value(); }

  /// The number of the first name that is set, or the fallback.
  int number(std::initializer_list<const char*> names, std::optional<int> fallback = {}) {
    for (const char* name : names) {
      const std::optional<std::string> text = environment_(name);
      if (!text) continue;
      Result<int> value = parse_number(name, *text);
      if (value.ok()) return value.value();
      fail(value.error());
      return 0;
    }
    if (!fallback) {
      fail(Error{"invalid_environment", "is not set, though the launcher's other variables are",
                 *names.begin(), kUseLauncher});
    }
    return fallback.value_or(0);
  }

  std::string text(const std::string& name) const { return environment_(name).value_or(""); }

  void fail(Error error) {
    if (!error_) error_ = std::move(error);
  }

  const std::optional<Error>& error() const { return error_; }

 private:
  const Environment& environment_;
  std::optional<Error> error_;
};

Result<Launch> consistent(const Reader& reader, Launch launch) {
  if (reader.error()) return *reader.error();
  const auto wrong = [&](int rank, int size, const char* what) {
    return Error{"invalid_environment",
                 std::string(what) + "rank " + std::to_string(rank) + " of " +
                     std::to_string(size) + " is impossible",
                 launch.launcher, kUseLauncher};
  };
  if (launch.rank >= launch.world_size) return wrong(launch.rank, launch.world_size, "");
  if (launch.local_rank >= launch.local_size)
    return wrong(launch.local_rank, launch.local_size, "local ");
  if (launch.local_size > launch.world_size) {
    return Error{"invalid_environment",
                 std::to_string(launch.local_size) + " ranks on this node of " +
                     std::to_string(launch.world_size) + " in all is impossible",
                 launch.launcher, kUseLauncher};
  }
  return launch;
}

/// Entry `node` of Slurm's compressed list, for example "2(x3),1" = 2, 2, 2, 1.
Result<int> tasks_on_node(const std::string& name, const std::string& list, int node) {
  std::size_t at = 0;
  while (at < list.size()) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    const std::string item = list.substr(at, comma - at);
    const std::size_t bracket = item.find("(x");
    int repeat = 1;
    if (bracket != std::string::npos && item.back() == ')') {
      Result<int> parsed = parse_number(name, item.substr(bracket + 2, item.size() - bracket - 3));
      if (!parsed.ok()) return parsed;
      repeat = parsed.value();
    }
    if (node < repeat) return parse_number(name, item.substr(0, bracket));
    node -= repeat;
    at = comma + 1;
  }
  return Error{"invalid_environment", "\"" + list + "\" has no entry for this node", name, ""};
}

int slurm_local_size(Reader& reader) {
  for (const char* name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}) {
    if (!reader.has(name)) continue;
    Result<int> tasks = tasks_on_node(name, reader.text(name), reader.number({"SLURM_NODEID"}, 0));
    if (tasks.ok()) return tasks.value();
    reader.fail(tasks.error());
  }
  return reader.number({"SLURM_LOCALID"}, 0) + 1;
}

Result<Launch> read_open_mpi(Reader reader) {
  Launch launch{.launcher = "Open MPI"};
  launch.rank = reader.number({"OMPI_COMM_WORLD_RANK"});
  launch.world_size = reader.number({"OMPI_COMM_WORLD_SIZE"});
  launch.local_rank = reader.number({"OMPI_COMM_WORLD_LOCAL_RANK"});
  launch.local_size = reader.number({"OMPI_COMM_WORLD_LOCAL_SIZE"});
  return consistent(reader, launch);
}

Result<Launch> read_slurm_step(Reader reader) {
  Launch launch{.launcher = "Slurm"};
  launch.rank = reader.number({"SLURM_PROCID"});
  launch.world_size = reader.number({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"});
  if (!reader.has("PMIX_RANK") && !reader.has("PMI_RANK")) {
    if (!reader.error() && launch.world_size > 1) {
      return Error{"invalid_environment",
                   "srun started " + std::to_string(launch.world_size) +
                       " tasks without an MPI plug-in (neither PMIX_RANK nor PMI_RANK is set)",
                   "SLURM_STEP_NUM_TASKS", "use srun --mpi=pmix, or mpirun inside the allocation"};
    }
    return consistent(reader, Launch{.launcher = "none"});
  }
  const int mpi_rank = reader.number({"PMIX_RANK", "PMI_RANK"});
  launch.local_rank = reader.number({"SLURM_LOCALID"}, 0);
  launch.local_size = slurm_local_size(reader);
  if (!reader.error() && mpi_rank != launch.rank) {
    return Error{"invalid_environment",
                 "SLURM_PROCID is " + std::to_string(launch.rank) + ", the MPI plug-in's rank " +
                     std::to_string(mpi_rank),
                 "SLURM_PROCID", "unset the variables that an outer job left behind"};
  }
  return consistent(reader, launch);
}

Result<Launch> read_pmix(Reader reader) {
  Launch launch{.launcher = "PMIx"};
  launch.rank = reader.number({"PMIX_RANK", "PMI_RANK"});
  launch.world_size = reader.number({"PMIX_SIZE", "PMI_SIZE"});
  launch.local_rank = reader.number({"PMIX_LOCAL_RANK", "MPI_LOCALRANKID"}, 0);
  launch.local_size = reader.number({"PMIX_LOCAL_SIZE", "MPI_LOCALNRANKS"}, launch.local_rank + 1);
  return consistent(reader, launch);
}

Result<Launch> read_torchrun(Reader reader) {
  Launch launch{.launcher = "torchrun"};
  launch.rank = reader.number({"RANK"});
  launch.world_size = reader.number({"WORLD_SIZE"});
  if (!reader.error() && launch.world_size <= 1) return Launch{.launcher = "none"};
  launch.local_rank = reader.number({"LOCAL_RANK"});
  launch.local_size = reader.number({"LOCAL_WORLD_SIZE"});
  launch.store.host = reader.text("MASTER_ADDR");
  if (launch.store.host.empty())
    reader.fail(Error{"invalid_environment", "is not set", "MASTER_ADDR", kUseLauncher});
  const int port = reader.number({"MASTER_PORT"});
  launch.store.port = static_cast<std::uint16_t>(port);
  launch.store.is_hosted = reader.text("TORCHELASTIC_USE_AGENT_STORE") != "True";
  launch.store.attempt = reader.number({"TORCHELASTIC_RESTART_COUNT"}, 0);
  if (port < 1 || port > UINT16_MAX)
    reader.fail(Error{"invalid_environment", "is not a port", "MASTER_PORT", kUseLauncher});
  return consistent(reader, launch);
}

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

base::Result<Launch> detect_launch(const Environment& environment) {
  const Reader reader(environment);
  if (reader.has("OMPI_COMM_WORLD_RANK") || reader.has("OMPI_COMM_WORLD_SIZE"))
    return read_open_mpi(reader);
  if (reader.has("SLURM_STEP_ID") && reader.has("SLURM_PROCID")) return read_slurm_step(reader);
  if (reader.has("PMIX_RANK") || reader.has("PMI_RANK")) return read_pmix(reader);
  if (reader.has("RANK") && reader.has("WORLD_SIZE")) return read_torchrun(reader);
  return Launch{.launcher = "none"};
}

}  // namespace tt::comm

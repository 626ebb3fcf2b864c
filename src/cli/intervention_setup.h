#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/cli/tracing_setup.h"
#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/intervene/context.h"
#include "tensor_tracer/intervene/engine.h"

namespace tt::cli {

/// A program that a run begins with. From a file: it has the file's name, and is text, or JSON if
/// the file's name ends in .json. From --steer, --ablate or --cap: it is text, and its name says
/// what it does.
struct ProgramFile {
  std::string name;
  nlohmann::json program;
  nlohmann::json parameters = nlohmann::json::object();  // values by name
  bool keep = true;                                      // the end of a lease does not end it
  std::optional<std::int64_t> since = {};                // its first step; unset: that of the run
  std::optional<std::uint64_t> ttl = {};                 // steps
};

/// The programs of a checkpoint.
struct ResumedPrograms {
  std::vector<ProgramFile> in_force;  // at the save
  nlohmann::json files;               // InterventionSetup::files_read of the former run
};

/// The context that a run's programs are checked against, and the programs that the run begins
/// with.
struct InterventionSetup {
  std::unique_ptr<trace::TensorFiles> files;  // null: none, or not global rank 0
  intervene::Context context;                 // refers to `files` and the tracing's vectors
  std::vector<ProgramFile> programs;          // on global rank 0 only
  nlohmann::json files_read = nlohmann::json::array();  // names and programs of flags and files
};

/// The run that programs are checked against, without the folder of files.
intervene::Context make_program_context(const config::TrainConfig& config,
                                        const mesh::MeshShape& shape, const TracingSetup& tracing);

/// Makes the programs of the flags and reads the files. Errors name the flag or the file, and the
/// place in the program. `resumed`: null, or the programs of a checkpoint. They are in force if the
/// run has no program, or the same programs as the former run, which then are as they were at the
/// save. REQUIRES: take_steering_config(config).
base::Result<InterventionSetup> prepare_interventions(const config::TrainConfig& config,
                                                      const mesh::MeshShape& shape,
                                                      const TracingSetup& tracing,
                                                      const ResumedPrograms* resumed);

base::Result<ProgramFile> read_program_file(const std::string& path);

/// Makes the engine of one rank, with the programs of rank 0 in force from `first_step` on. Rank 0
/// also sends the contents of the files that the programs name. Throws TrainError if such a file
/// has changed since it was checked. Collective over `world`.
std::unique_ptr<trace::InterventionHooks> make_engine(const InterventionSetup& setup,
                                                      const comm::ProcessGroup& tensor,
                                                      const comm::ProcessGroup& world,
                                                      std::int64_t first_step);

}  // namespace tt::cli

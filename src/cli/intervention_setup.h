#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/cli/tracing_setup.h"
#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/intervene/context.h"
#include "tensor_tracer/intervene/engine.h"

namespace tt::cli {

/// A program of a file, named by it: text, or JSON where the name ends so.
struct ProgramFile {
  std::string name;
  nlohmann::json program;
};

/// What a run's programs are checked against, and those it begins with.
struct InterventionSetup {
  std::unique_ptr<trace::TensorFiles> files;  // null: none, or not global rank 0
  intervene::Context context;                 // refers to `files` and the tracing's vectors
  std::vector<ProgramFile> programs;          // global rank 0
};

/// The run that programs are checked against, without the folder of files.
intervene::Context make_program_context(const config::TrainConfig& config,
                                        const mesh::MeshShape& shape, const TracingSetup& tracing);

/// Reads the files. Errors name the flag or file, and the place in it.
base::Result<InterventionSetup> prepare_interventions(const config::TrainConfig& config,
                                                      const mesh::MeshShape& shape,
                                                      const TracingSetup& tracing);

base::Result<ProgramFile> read_program_file(const std::string& path);

/// The engine of one rank with the programs of rank 0's files in force, which come with the
/// contents of the files that they name. Throws TrainError where such a file has changed since it
/// was checked. Collective over `world`.
std::unique_ptr<trace::InterventionHooks> make_engine(const InterventionSetup& setup,
                                                      const comm::ProcessGroup& tensor,
                                                      const comm::ProcessGroup& world);

}  // namespace tt::cli

#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/cli/intervention_setup.h"
#include "src/cli/run_tokenizer.h"
#include "src/cli/tracing_setup.h"
#include "tensor_tracer/base/result.h"
#include "tensor_tracer/base/scoped_fd.h"
#include "tensor_tracer/checkpoint/manifest.h"
#include "tensor_tracer/checkpoint/tensor_store.h"
#include "tensor_tracer/comm/launcher.h"
#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/mesh/mesh.h"

namespace tt::cli {

/// The checkpoint that a run resumes from. On ranks other than 0 only `path`, and the step and
/// files of the manifest.
struct ResumePoint {
  std::string path;
  checkpoint::Manifest manifest;
  std::vector<std::string> notices = {};  // for the terminal

  ResumedPlan plan() const;
  ResumedPrograms programs() const;
  /// The fact "parent" of docs/protocol.md.
  nlohmann::json parent() const;
};

/// Finds the newest checkpoint of --load whose files are undamaged, and compares it with the run. A
/// damaged one becomes a notice if there is another. Error: there is no undamaged checkpoint, or
/// the first option in which the run must not differ and differs, with both values; or no step is
/// left. Other options that changed become notices. Global rank 0, before MPI starts.
base::Result<ResumePoint> find_resume_point(const config::TrainConfig& config,
                                            const mesh::MeshShape& shape, const std::string& data,
                                            const RunTokenizer& tokenizer);

/// Makes the folder of --save and locks it, because two runs that save in one folder would remove
/// each other's files. An empty name means that the run has no such folder. Global rank 0.
base::Status lock_save_folder(const std::string& folder, base::ScopedFd& lock);

/// Refuses a folder of --save with checkpoints of another run, which would be replaced step by
/// step. `resumed`: null, or the checkpoint that the run resumes from. Global rank 0.
base::Status refuse_other_run(const config::CheckpointConfig& checkpoint,
                              const ResumePoint* resumed);

/// Gives every rank the point of rank 0, and opens its files. Error: a rank finds other files than
/// rank 0 under the same path; the error names the rank and the file, and is the same on all ranks.
/// Collective over `world`.
base::Result<std::shared_ptr<const checkpoint::TensorStore>> open_state(
    ResumePoint& point, const comm::ProcessGroup& world);

/// The command that resumes a run from `folder`, for a shell: the launcher, and the arguments of
/// the run with another --load. Private options are left out.
std::string resume_command(const std::vector<std::string>& arguments, const comm::Launch& launch,
                           const std::string& folder);

/// The facts that a run's checkpoints hold: docs/checkpoints.md. `run`: the facts of the run.
/// `resumed`: null, or the checkpoint whose plan stays until the run has one. Global rank 0.
nlohmann::json checkpoint_facts(const config::TrainConfig& config, const mesh::MeshShape& shape,
                                const std::string& data, const nlohmann::json& run,
                                const TracingSetup& tracing, const InterventionSetup& intervention,
                                const ResumePoint* resumed);

}  // namespace tt::cli

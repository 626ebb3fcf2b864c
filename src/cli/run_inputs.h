#pragma once

#include "src/cli/intervention_setup.h"
#include "src/cli/resume.h"
#include "src/cli/tracing_setup.h"
#include "tensor_tracer/base/result.h"
#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/mesh/mesh.h"

namespace tt::cli {

/// Prompts, plan, vectors, programs and their files. Only global rank 0 opens them: two nodes may
/// have different files under the same path.
struct RunInputs {
  TracingSetup tracing;
  InterventionSetup intervention;
};

/// Reads and checks all of them. `resumed`: null, or the checkpoint that the run resumes from.
/// Global rank 0, before MPI starts.
base::Result<RunInputs> read_inputs(const config::TrainConfig& config, const mesh::MeshShape& shape,
                                    const RunTokenizer& tokenizer, const ResumePoint* resumed);

/// Gives every rank the inputs that rank 0 read, or rank 0's error. The programs follow with
/// make_engine(). Collective over `world`. `read` of ranks other than 0 is ignored.
base::Result<RunInputs> share_inputs(base::Result<RunInputs> read,
                                     const config::TrainConfig& config,
                                     const mesh::MeshShape& shape, const RunTokenizer& tokenizer,
                                     const comm::ProcessGroup& world);

}  // namespace tt::cli

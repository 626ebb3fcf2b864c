#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/cli/run_tokenizer.h"
#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/data/prompts.h"
#include "tensor_tracer/mesh/mesh.h"
#include "tensor_tracer/trace/file_contents.h"
#include "tensor_tracer/trace/plan.h"
#include "tensor_tracer/trace/plan_cost.h"

namespace tt::cli {

/// The trace plan of a checkpoint.
struct ResumedPlan {
  nlohmann::json in_force;  // at the save; null: none
  nlohmann::json file;      // TracingSetup::plan_file of the former run
};

/// The tracing inputs of a run with a page: prompts, vectors, and the first plan, read and checked.
struct TracingSetup {
  std::vector<data::PromptSet> prompts;
  std::unique_ptr<trace::VectorLibrary> vectors;  // null: none, or not global rank 0
  trace::PlanContext context;                     // refers to `vectors`
  std::shared_ptr<const intervene::TokenTexts> token_texts = {};  // of the tokenizer
  trace::OtherPasses passes;
  std::shared_ptr<const trace::Plan> plan;  // null: nothing is traced
  nlohmann::json plan_file;                 // the plan of --tensor-tracer-plan; null: none
  std::string notice;                       // parts that the plan leaves out; empty: none
};

/// Reads the files. Errors name the flag, the file and the place in the file. `resumed`: null, or
/// the plan of a checkpoint. It is in force if --tensor-tracer-plan names no file, or the same plan
/// as in the former run.
base::Result<TracingSetup> prepare_tracing(const config::TrainConfig& config,
                                           const mesh::MeshShape& shape,
                                           const RunTokenizer& tokenizer,
                                           const ResumedPlan* resumed);

/// The same setup, made from the data of another rank: its prompts, its plan (null: none), and the
/// contents of the files that the plan names.
TracingSetup receive_tracing(const config::TrainConfig& config, const mesh::MeshShape& shape,
                             const RunTokenizer& tokenizer, std::vector<data::PromptSet> prompts,
                             const nlohmann::json& plan, trace::FileContents contents);

/// Adds "points", "program_places", "plan", "prompt_sets" and "vectors" of docs/protocol.md, "The
/// run's facts".
void add_tracing_facts(const config::TrainConfig& config, const TracingSetup& tracing,
                       nlohmann::json& facts);

}  // namespace tt::cli

#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tensor_tracer/control/rehearsal.h"
#include "tensor_tracer/data/prompts.h"
#include "tensor_tracer/trace/file_contents.h"

namespace tt::control {

/// The forward passes of one side of a preview: without its program, or with it.
struct PreviewPasses {
  std::int64_t step;
  bool has_backward;  // of the training batch, because the program writes gradients
  trace::Tracer& watch;
  /// All sets of the run; those that the preview does not run are marked as removed.
  const std::vector<data::PromptSet>& prompts;
};

/// The mean loss of a batch, in nats. `batch`: "train" or "valid".
struct BatchLoss {
  std::string batch;
  double loss = 0.0;
};

/// What a preview needs of its run. `rehearsal.hooks` is not null.
struct PreviewParts {
  /// Runs the batches that the run has, and the prompts, without dropout. Every rank calls it.
  /// Returns the losses of the batches. Error: the model failed, on any rank.
  std::function<base::Result<std::vector<BatchLoss>>(const PreviewPasses& passes)> forwards;
  const std::vector<data::PromptSet>& prompts;  // in the order of the context's prompt sets
  bool has_batches;                             // false: `forwards` runs prompts only
  Rehearsal rehearsal;
};

/// Answers "intervention.preview": runs the batches and the prompt sets that the plan watches
/// without and with a program. Without batches, a plan that watches no set stands for all sets, and
/// "writes" of the answer sums over prompts. The run's state does not change. `contents`: of the
/// files that plan and program in `params` name. Returns the answer of rank 0. Collective. Thread:
/// the thread that runs the step.
base::Result<nlohmann::json> run_preview(const PreviewParts& parts, const nlohmann::json& params,
                                         const trace::FileContents& contents,
                                         std::int64_t steps_done);

}  // namespace tt::control

#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tensor_tracer/train/forward_runner.h"

namespace tt::train {

/// Answers "intervention.preview": the last training batch and the first evaluation batch without
/// and with a program, which leave nothing behind. Thread: the thread that runs the step.
class Preview {
 public:
  /// What is referred to outlives it.
  Preview(ForwardRunner& runner, trace::InterventionHooks& hooks, const Groups& groups,
          const trace::PlanContext& context, std::uint64_t run_id)
      : runner_(runner), hooks_(hooks), groups_(groups), context_(context), run_id_(run_id) {}

  /// `contents`: of the files that plan and program in `params` name. The answer of rank 0.
  /// Collective.
  base::Result<nlohmann::json> run(const nlohmann::json& params,
                                   const trace::FileContents& contents, std::int64_t steps_done);

 private:
  /// Keeps the records of a pass.
  class Kept;
  /// Of both batches, without or with the program.
  struct Losses {
    double train = 0.0;
    double valid = 0.0;
    std::string records;  // of the evaluation batch
  };

  base::Result<std::optional<trace::Plan>> begin(const nlohmann::json& params,
                                                 const trace::FileContents& contents);
  Losses measure(std::int64_t step, bool has_backward, trace::Tracer* watch, Kept& kept);

  ForwardRunner& runner_;
  trace::InterventionHooks& hooks_;
  const Groups& groups_;
  const trace::PlanContext& context_;
  const std::uint64_t run_id_;
};

}  // namespace tt::train

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/attach/forward.h"
#include "src/attach/places.h"
#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/control/prompt_control.h"
#include "tensor_tracer/control/prompt_run.h"

namespace tt::attach {

/// What the Python side does for prompts (python/tensor_tracer/attaching/prompts.py).
struct PromptCalls {
  data::Tokenizer tokenize;  // on global rank 0
  /// Runs the model on tokens, int64 [rows, tokens], with the hooks that `forward` needs. Returns
  /// why the model failed; empty: it did not.
  std::function<std::string(const std::shared_ptr<Forward>& forward, const at::Tensor& tokens)>
      run_model;
};

/// The prompts of an attached run. Every rank runs them, in the same order: with FSDP each rank has
/// a part of the weights. After a forward that failed on any rank no prompt runs any more. Thread:
/// the thread that runs the step.
class Prompts {
 public:
  /// Reads the prompt sets of global rank 0, and sets those of `context`. `settings`: the form that
  /// python/tensor_tracer/attaching/prompts.py writes; `device`: of the model's tensors; `replica`:
  /// the index on the data axis. Throws AttachError. Collective over all ranks.
  Prompts(const nlohmann::json& settings, PromptCalls calls, const comm::ProcessGroup& control,
          std::shared_ptr<const Places> places, const trace::PlanContext& context,
          at::Device device, int replica);

  std::int64_t interval() const { return interval_; }
  const std::vector<data::PromptSet>& sets() const { return sets_; }
  /// As "prompt_sets" of the run's facts.
  nlohmann::json describe() const { return data::describe(sets_, interval_); }
  /// For control::PromptControl. `run`: answers "prompt.run" by calling run().
  control::PromptControl::Prompts for_control(control::PromptControl::Run run);

  /// Why no program acts on prompts; empty: programs do.
  std::string no_programs() const;
  /// Why no preview can run. An error on every rank or on none; the text is that of global rank 0.
  base::Status check_preview() const;

  /// Runs one pass. Error: the model failed. Collective over all ranks.
  base::Status run(const control::PromptPass& pass);
  /// Runs those of the sets that the plan captures from or a program acts on. `rows`: the most
  /// prompts of a pass. Error: the model failed. Collective over all ranks.
  base::Status run_sets(const std::vector<data::PromptSet>& sets, std::int64_t step,
                        std::int64_t rows, trace::Tracer& tracer, trace::InterventionHooks* hooks);
  /// Why prompts were switched off since the last call; empty: they were not.
  std::string take_news() { return std::exchange(news_, {}); }

 private:
  base::Status read(const nlohmann::json& settings, std::int64_t seq_length);
  base::Result<std::vector<std::int64_t>> tokenize(const std::string& text) const;
  std::shared_ptr<Forward> open(const control::PromptPass& pass) const;
  base::Status run(const std::shared_ptr<Forward>& forward, const at::Tensor& tokens);

  const PromptCalls calls_;
  const comm::ProcessGroup control_;
  const std::shared_ptr<const Places> places_;
  const at::Device device_;
  const bool is_copy_;            // data replica 0 runs the same prompts
  const std::int64_t filled_to_;  // the tokens of every pass; 0: those of its prompts
  base::Status refused_;          // on global rank 0: why no prompt runs
  std::vector<data::PromptSet> sets_;
  std::int64_t interval_ = 1;
  std::string off_;  // why no prompt runs any more; empty: they run
  std::string news_;
};

}  // namespace tt::attach

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "tensor_tracer/control/rehearsal.h"
#include "tensor_tracer/data/prompts.h"
#include "tensor_tracer/trace/file_contents.h"
#include "tensor_tracer/trace/pass.h"

namespace tt::control {

/// A forward pass over prompts, `text.tokens` [rows, tokens]. `hooks`: the programs that act; null:
/// no program acts.
struct PromptPass {
  trace::ForwardScope scope;
  trace::PassText text;
  trace::Tracer& tracer;
  trace::InterventionHooks* hooks;
};

/// Runs the pass through the model on the ranks that take part in it. Every rank calls it. Error:
/// the model failed, on any rank.
using PromptForward = std::function<base::Status(const PromptPass& pass)>;

/// Answers "prompt.run": runs a text through the model without programs and, if programs are in
/// force, with them. The run's state does not change. `params`: the text, its tokens, and the plan
/// as default_prompt_plan() or the viewer wrote it; `contents`: of the files that the plan names.
/// Returns the answer of rank 0. Collective. Thread: the thread that runs the step.
base::Result<nlohmann::json> run_prompt(const PromptForward& forward, const Rehearsal& rehearsal,
                                        const nlohmann::json& params,
                                        const trace::FileContents& contents,
                                        std::int64_t steps_done);

/// Calls `run` for the prompt sets that were not removed, with at most `rows` prompts at once,
/// until it returns false: the set needs no more passes.
void for_each_pass(
    const std::vector<data::PromptSet>& sets, std::int64_t step, std::int64_t rows,
    const std::function<bool(const trace::ForwardScope& scope, const trace::PassText& text)>& run);

}  // namespace tt::control

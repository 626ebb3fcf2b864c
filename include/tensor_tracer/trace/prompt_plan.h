#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "tensor_tracer/trace/plan.h"

/// Plans for one prompt that a viewer types: their entries name no prompt set, because all of them
/// take this prompt. Thread: any.
namespace tt::trace {

/// The prompt set of a typed prompt in records. No set of a run has this number.
inline constexpr std::uint32_t kTypedPrompt = 0xFFFF'FFFF;

/// The plan for a prompt of `tokens` tokens: input tokens, the largest logits and those of the
/// logit lens, hidden states, attention probabilities, and projections on the run's vectors, as far
/// as the model has these points. It is as detailed as `max_bytes` of records allow.
nlohmann::json default_prompt_plan(const PlanContext& context, std::int64_t tokens,
                                   std::size_t max_bytes);

/// Reads such a plan for one run of the prompt. The entries get the set kTypedPrompt; `every` does
/// not count. Errors as in parse_plan(); an entry names prompts; more than `max_bytes` of records.
base::Result<Plan> parse_prompt_plan(const nlohmann::json& text, const PlanContext& context,
                                     std::int64_t tokens, std::size_t max_bytes);

/// The plan's entries for the prompt set `name`. Error: an entry names prompts.
base::Result<nlohmann::json> entries_for(const nlohmann::json& text, const std::string& name);

}  // namespace tt::trace

#include "src/hub/room/run_state.h"

#include <algorithm>
#include <utility>

#include "tensor_tracer/protocol/json_members.h"

namespace tt::hub {

using protocol::member;
using protocol::natural;
using protocol::text_of;

void RunState::set_facts(nlohmann::json facts) {
  if (!facts_.is_null() && text_of(facts_, "id") != text_of(facts, "id")) forget_past();
  facts_ = std::move(facts);
  plan_ = 0;
  follow_plan(member(facts_, "plan"));
}

bool RunState::set_state(nlohmann::json state) {
  if (state == state_) return false;
  state_ = std::move(state);
  return true;
}

bool RunState::lose() {
  if (has_ended() || phase() == "lost") return false;
  state_["phase"] = "lost";
  state_["step"] = std::max(last_step_, natural(state_, "step").value_or(0));
  return true;
}

void RunState::add_step(const nlohmann::json& params, SharedBytes message) {
  last_step_ = std::max(last_step_, natural(params, "step").value_or(0));
  steps_.push_back(std::move(message));
  if (steps_.size() > kMaxSteps) steps_.pop_front();
}

void RunState::forget_past() {
  last_step_ = 0;
  steps_.clear();
  latest_.clear();
}

void RunState::set_plan(const nlohmann::json& plan) {
  if (facts_.is_object() && plan.is_object()) {
    facts_["plan"] = plan;
    follow_plan(plan);
  }
}

void RunState::set_recording_limit(std::uint64_t max_bytes) {
  if (facts_.is_object()) facts_["recording_max_bytes"] = max_bytes;
}

void RunState::follow_plan(const nlohmann::json& plan) {
  if (const auto number = natural(plan, "number"); number && *number <= UINT32_MAX) {
    plan_ = static_cast<std::uint32_t>(*number);
    latest_.forget_plans_before(plan_);
  }
}

void RunState::keep_record(StoredRecord record) {
  if (record.plan >= plan_) latest_.put(std::move(record));
}

void RunState::set_prompt_sets(const nlohmann::json& sets) {
  if (facts_.is_object() && sets.is_array()) facts_["prompt_sets"] = sets;
}

void RunState::set_programs(const nlohmann::json& programs) {
  if (facts_.is_object() && programs.is_array()) facts_["interventions"] = programs;
}

const nlohmann::json& RunState::programs() const {
  static const nlohmann::json none = nlohmann::json::array();
  const nlohmann::json& programs = member(facts_, "interventions");
  return programs.is_array() ? programs : none;
}

bool RunState::has_programs_to_revert() const {
  return std::ranges::any_of(
      programs(),
      [](const nlohmann::json& program) {
        return program.is_object() && member(program, "keep") != true;
      });
}

bool RunState::has_ended() const { return phase() == "finished" || phase() == "stopped"; }

std::string RunState::phase() const { return text_of(state_, "phase"); }

}  // namespace tt::hub

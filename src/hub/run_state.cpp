#include "src/hub/run_state.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tt::hub {
namespace {
std::string text_of(const nlohmann::json& object, const char* member) {
  const auto value = object.is_object() ? object.find(member) : object.end();
  return value != object.end() && value->is_string() ? value->get<std::string>() : "";
}

std::uint64_t step_of(const nlohmann::json& object) {
  const auto step = object.is_object() ? object.find("step") : object.end();
  const bool has_step = object.is_object() && step != object.end() && step->is_number_unsigned();
  return has_step ? step->get<std::uint64_t>() : 0;
}
}  // namespace

void RunState::set_facts(nlohmann::json facts) {
  if (!facts_.is_null() && text_of(facts_, "id") != text_of(facts, "id")) {
    forget_past();
  }
  facts_ = std::move(facts);
  shown_records_.set_plan(dialect::member(facts_, "plan"));
  plan_ = 0;
  if (const auto plan = facts_.find("plan"); plan != facts_.end() && plan->is_object()) {
    follow_plan(*plan);
  }
}

bool RunState::set_state(nlohmann::json state) {
  if (state == state_) {
    return false;
  }
  state_ = std::move(state);
  return true;
}

bool RunState::lose() {
  if (phase() == "finished" || phase() == "lost") {
    return false;
  }
  state_["phase"] = "lost";
  state_["step"] = std::max(last_step_, step_of(state_));
  return true;
}

void RunState::add_step(const nlohmann::json& params, SharedBytes message) {
  last_step_ = std::max(last_step_, step_of(params));
  steps_.push_back(std::move(message));
  if (steps_.size() > kMaxSteps) {
    steps_.pop_front();
  }
}

void RunState::forget_past() {
  last_step_ = 0;
  steps_.clear();
  latest_.clear();
}

void RunState::set_plan(const nlohmann::json& plan) {
  if (!facts_.is_object() || !plan.is_object()) {
    return;
  }
  facts_["plan"] = plan;
  shown_records_.set_plan(plan);
  follow_plan(plan);
}

void RunState::follow_plan(const nlohmann::json& plan) {
  const auto number = plan.find("number");
  if (number != plan.end() && number->is_number_unsigned() &&
      number->get<std::uint64_t>() <= UINT32_MAX) {
    plan_ = number->get<std::uint32_t>();
    latest_.forget_plans_before(plan_);
  }
}

void RunState::keep_record(StoredRecord record) {
  if (record.plan >= plan_) {
    latest_.put(std::move(record));
  }
}

void RunState::set_programs(const nlohmann::json& programs) {
  if (facts_.is_object() && programs.is_array()) {
    facts_["interventions"] = programs;
  }
}

void RunState::put_program(const nlohmann::json& program) {
  if (program.is_object() && program.contains("name")) {
    drop_program(program.at("name"));
    nlohmann::json now = programs();
    now.push_back(program);
    set_programs(now);
  }
}

void RunState::drop_program(const nlohmann::json& name) {
  nlohmann::json left = nlohmann::json::array();
  std::ranges::copy_if(programs(), std::back_inserter(left), [&](const nlohmann::json& program) {
    return !program.is_object() || program.value("name", nlohmann::json()) != name;
  });
  set_programs(left);
}

const nlohmann::json& RunState::programs() const {
  static const nlohmann::json none = nlohmann::json::array();
  const auto programs = facts_.is_object() ? facts_.find("interventions") : facts_.end();
  return programs != facts_.end() && programs->is_array() ? *programs : none;
}

const nlohmann::json* RunState::find_program(std::string_view name) const {
  const nlohmann::json& all = programs();
  const auto found = std::ranges::find_if(
      all, [&](const nlohmann::json& program) { return text_of(program, "name") == name; });
  return found == all.end() ? nullptr : &*found;
}

bool RunState::has_programs_to_revert() const {
  return std::ranges::any_of(programs(), [](const nlohmann::json& program) {
    return program.is_object() && program.value("keep", nlohmann::json()) != true;
  });
}

std::string RunState::phase() const { return text_of(state_, "phase"); }

}  // namespace tt::hub

#include "run_mirror.h"

#include <utility>

namespace tt::hub {
namespace {
std::string text_of(const nlohmann::json& object, const char* member) {
  const auto value = object.find(member);
  return value != object.end() && value->is_string() ? value->get<std::string>() : "";
}
}  // namespace

void RunMirror::set_facts(nlohmann::json facts) {
  if (!facts_.is_null() && text_of(facts_, "id") != text_of(facts, "id")) {
    steps_.clear();
    latest_.clear();
  }
  facts_ = std::move(facts);
}

bool RunMirror::set_state(nlohmann::json state) {
  if (state == state_) {
    return false;
  }
  state_ = std::move(state);
  return true;
}

bool RunMirror::lose() {
  if (phase() == "finished" || phase() == "lost") {
    return false;
  }
  state_["phase"] = "lost";
  return true;
}

void RunMirror::add_step(SharedBytes message) {
  steps_.push_back(std::move(message));
  if (steps_.size() > kMaxSteps) {
    steps_.pop_front();
  }
}

void RunMirror::set_plan(const nlohmann::json& plan) {
  if (!facts_.is_object() || !plan.is_object()) {
    return;
  }
  facts_["plan"] = plan;
  const auto number = plan.find("number");
  if (number != plan.end() && number->is_number_unsigned() &&
      number->get<std::uint64_t>() <= UINT32_MAX) {
    latest_.forget_plans_before(number->get<std::uint32_t>());
  }
}

std::string RunMirror::phase() const { return text_of(state_, "phase"); }

}  // namespace tt::hub

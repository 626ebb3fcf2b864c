#include "src/cli/control_log.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "tensor_tracer/base/overloaded.h"
#include "tensor_tracer/protocol/json_members.h"
#include "tensor_tracer/protocol/request.h"

namespace tt::cli {
namespace {

using protocol::TrainerRequest;

// Empty: the request is not worth a line.
std::string describe(const TrainerRequest& request, const std::string& by, std::uint64_t step) {
  const auto after = [&](const char* verb) {
    return fmt::format("{} by {} after step {}", verb, by, step);
  };
  const auto from = [&](const std::string& subject, const char* verb) {
    return fmt::format("{} {} by {}, from step {} on", subject, verb, by, step);
  };
  return std::visit(
      base::Overloaded{[&](const protocol::PauseRun&) { return after("paused"); },
                       [&](const protocol::ContinueRun&) { return after("continued"); },
                       [&](const protocol::StopRun&) { return after("stopped"); },
                       [&](const protocol::SaveCheckpoint&) {
                         return fmt::format("checkpoint of step {} asked for by {}", step, by);
                       },
                       [&](const protocol::StepRun&) {
                         return fmt::format("stepped by {} up to step {}", by, step);
                       },
                       [&](const protocol::SetPlan&) { return from("plan", "set"); },
                       [&](const protocol::ApplyProgram& body) {
                         return from(fmt::format("program \"{}\"", body.name), "applied");
                       },
                       [&](const protocol::RemovePrograms& body) {
                         return from(
                             body.name ? fmt::format("program \"{}\"", *body.name) : "all programs",
                             "removed");
                       },
                       [&](const protocol::RevertPrograms&) {
                         return from("the programs without `keep`", "removed");
                       },
                       [](const auto&) { return std::string(); }},
      request);
}

}  // namespace

std::vector<trace::Request> ControlLog::poll() {
  for (const std::string& notice : source_.take_notices()) log_.change(notice);
  std::vector<trace::Request> requests = source_.poll();
  for (const trace::Request& request : requests)
    if (request.id != 0)
      open_.emplace(request.id, request);
    else if (std::holds_alternative<protocol::ContinueRun>(request.body))
      log_.change("the hub was away for too long: a pause ends");
  return requests;
}

void ControlLog::answer(std::uint64_t id, nlohmann::json result) noexcept {
  if (const auto request = open_.extract(id); !request.empty()) {
    const trace::Request& asked = request.mapped();
    const std::string by = asked.by.empty() ? "the hub" : asked.by;
    const std::uint64_t step = protocol::natural(result, "step").value_or(0);
    if (const std::string text = describe(asked.body, by, step); !text.empty()) log_.change(text);
  }
  source_.answer(id, std::move(result));
}

void ControlLog::refuse(std::uint64_t id, const base::Error& error) noexcept {
  open_.erase(id);
  source_.refuse(id, error);
}

}  // namespace tt::cli

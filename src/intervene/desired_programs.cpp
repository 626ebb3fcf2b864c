#include "src/intervene/desired_programs.h"

#include <algorithm>
#include <utility>

#include "tensor_tracer/base/overloaded.h"
#include "tensor_tracer/intervene/engine.h"
#include "tensor_tracer/protocol/request.h"

namespace tt::intervene {

using nlohmann::json;

void DesiredPrograms::change(const char* reason) {
  has_changes_ = true;
  reason_ = reason;
}

json DesiredPrograms::to_json(const Desired& one) {
  json form = {{"name", one.name},
               {"program", json::parse(one.compiled->source)},
               {"parameters", one.targets},
               {"since", one.since},
               {"keep", one.keep}};
  if (one.until) form["until"] = *one.until;
  return form;
}

base::Error DesiredPrograms::not_in_force(const std::string& name) const {
  std::string names;
  for (const Desired& one : programs_) names += (names.empty() ? "" : ", ") + one.name;
  return {"not_found", "no program \"" + name + "\" is in force", "name",
          names.empty() ? "no program is in force" : "in force are: " + names};
}

DesiredPrograms::Desired* DesiredPrograms::find(const std::string& name) {
  const auto found = std::ranges::find(programs_, name, &Desired::name);
  return found == programs_.end() ? nullptr : &*found;
}

std::shared_ptr<const CompiledProgram> DesiredPrograms::find_compiled(const std::string& name,
                                                                      const std::string& source) {
  const Desired* asked = find(name);
  return asked != nullptr && asked->compiled->source == source ? asked->compiled : nullptr;
}

base::Result<json> DesiredPrograms::apply(const protocol::ApplyProgram& request,
                                          std::int64_t next_step) {
  auto made = make_active_program(request.program, context_);
  if (!made) return made.error();
  const json values = request.parameters.value_or(json::object());
  if (auto status = made.value()->set_targets(values); !status) return status.error();
  Desired* known = find(request.name);
  if (known == nullptr && programs_.size() >= kMaxPrograms) {
    return base::invalid_argument(
        "name", std::to_string(kMaxPrograms) + " programs are in force already", "remove one");
  }
  if (known == nullptr) known = &programs_.emplace_back();
  ActiveProgram& program = *made.value();
  program.name = request.name;
  program.since = next_step;
  program.keep = request.keep.value_or(false);
  if (request.ttl) program.until = next_step + static_cast<std::int64_t>(*request.ttl) - 1;
  *known = {program, program.compiled, program.compiled->contents};
  change("apply");
  return program.describe();
}

base::Result<json> DesiredPrograms::set(const protocol::SetParameter& request) {
  Desired* known = find(request.name);
  if (known == nullptr) return not_in_force(request.name);
  const graph::Program& program = known->compiled->program;
  const graph::Parameter* parameter = find_parameter(program, request.parameter);
  if (parameter == nullptr) {
    std::vector<std::string> names;
    for (const graph::Parameter& one : program.parameters) names.push_back(one.name);
    return base::invalid_argument("parameter", "the program has no such parameter",
                                  "there are: " + json(names).dump());
  }
  if (auto status = check_value(*parameter, request.value); !status) return status.error();
  known->targets[parameter->name] = request.value.get<double>();
  change("set");
  return json{{"value", request.value}};
}

base::Result<json> DesiredPrograms::remove(const protocol::RemovePrograms& request) {
  std::vector<std::string> removed;
  if (!request.name) {
    for (const Desired& one : programs_) removed.push_back(one.name);
    programs_.clear();
  } else {
    if (find(*request.name) == nullptr) return not_in_force(*request.name);
    std::erase_if(programs_, [&](const Desired& one) { return one.name == *request.name; });
    removed.push_back(*request.name);
  }
  if (!removed.empty()) change("remove");
  return json{{"removed", removed}};
}

json DesiredPrograms::revert() {
  std::vector<std::string> removed;
  for (const Desired& one : programs_)
    if (!one.keep) removed.push_back(one.name);
  if (!removed.empty()) {
    std::erase_if(programs_, [](const Desired& one) { return !one.keep; });
    change("lease");
  }
  return {{"removed", removed}};
}

base::Result<json> DesiredPrograms::request(const protocol::ProgramRequest& request,
                                            std::int64_t next_step) {
  return std::visit(
      base::Overloaded{
          [&](const protocol::ApplyProgram& body) { return apply(body, next_step); },
          [&](const protocol::SetParameter& body) { return set(body); },
          [&](const protocol::RemovePrograms& body) { return remove(body); },
          [&](const protocol::RevertPrograms&) { return base::Result<json>(revert()); }},
      request);
}

trace::ProgramChanges DesiredPrograms::take_changes(std::int64_t next_step) {
  const auto is_over = [next_step](const Desired& one) {
    return one.until && *one.until < next_step;
  };
  if (std::erase_if(programs_, is_over) > 0) change("expired");
  if (!std::exchange(has_changes_, false)) return {};
  trace::ProgramChanges changes;
  json programs = json::array();
  for (Desired& one : programs_) {
    programs.push_back(to_json(one));
    changes.contents.vectors.merge(one.contents.vectors);
    changes.contents.tensors.merge(one.contents.tensors);
    one.contents = {};
  }
  changes.text = json{{"reason", reason_}, {"programs", std::move(programs)}}.dump(
      -1, ' ', false, json::error_handler_t::replace);
  return changes;
}

void DesiredPrograms::give_up_new(const ActivePrograms& in_force) {
  std::vector<Desired> stays;
  for (const auto& program : in_force) {
    const Desired* asked = find(program->name);
    if (asked == nullptr) continue;
    const bool is_same = asked->since == program->since && asked->compiled == program->compiled;
    stays.push_back(is_same ? *asked : Desired{*program, program->compiled});
    has_changes_ = has_changes_ || (is_same && asked->targets != program->targets);
  }
  if (stays.size() < in_force.size()) change("remove");
  programs_ = std::move(stays);
}

}  // namespace tt::intervene

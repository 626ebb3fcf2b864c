// Which programs are in force: requests on global rank 0, then the same text on every rank.

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/intervene/state.h"
#include "tensor_tracer/base/overloaded.h"
#include "tensor_tracer/protocol/request.h"

namespace tt::intervene {
namespace {

using nlohmann::json;

base::Status check_number(const graph::Parameter& parameter, const json& value) {
  if (!value.is_number())
    return base::invalid_argument("value", "\"" + parameter.name + "\" is a number");
  const double number = value.get<double>();
  if (std::isfinite(number) && parameter.admits(number)) return {};
  const auto shown = [](double bound) { return json(bound).dump(); };
  return base::invalid_argument(
      "value", "\"" + parameter.name + "\" lies between " +
                   (parameter.min ? shown(*parameter.min) : "any number") + " and " +
                   (parameter.max ? shown(*parameter.max) : "any number") + ", not at " +
                   value.dump());
}

const graph::Parameter* find_parameter(const graph::Program& program, const std::string& name) {
  const auto found = std::ranges::find(program.parameters, name, &graph::Parameter::name);
  return found == program.parameters.end() ? nullptr : &*found;
}

json to_json(const Desired& wanted) {
  json form = {{"name", wanted.name},
               {"program", json::parse(wanted.compiled->source)},
               {"parameters", wanted.targets},
               {"since", wanted.since},
               {"keep", wanted.keep}};
  if (wanted.until) form["until"] = *wanted.until;
  return form;
}

}  // namespace

Context with_files(Context context, trace::ReceivedFiles& files) {
  context.vectors = &files;
  context.files = &files;
  return context;
}

base::Result<std::map<std::string, double>> targets_of(const ActiveProgram& program,
                                                       const json& given) {
  std::map<std::string, double> targets = program.targets;
  if (!given.is_object())
    return base::invalid_argument("parameters", "must be an object of numbers");
  for (const auto& [name, value] : given.items()) {
    const graph::Parameter* parameter = find_parameter(program.program, name);
    if (parameter == nullptr) {
      return base::invalid_argument("parameters",
                                    "the program has no parameter \"" + name.substr(0, 64) + "\"");
    }
    if (auto status = check_number(*parameter, value); !status) return status.error();
    targets[name] = value.get<double>();
  }
  return targets;
}

base::Error Engine::State::not_in_force(const std::string& name) const {
  std::string names;
  for (const Desired& one : wanted) names += (names.empty() ? "" : ", ") + one.name;
  return {"not_found", "no program \"" + name + "\" is in force", "name",
          names.empty() ? "none is" : "there are: " + names};
}

Desired* Engine::State::find_wanted(const std::string& name) {
  const auto found = std::ranges::find(wanted, name, &Desired::name);
  return found == wanted.end() ? nullptr : &*found;
}

base::Result<json> Engine::State::apply(const protocol::ApplyProgram& request,
                                        std::int64_t next_step) {
  auto made = make_active_program(request.program, context);
  if (!made) return made.error();
  auto targets = targets_of(*made.value(), request.parameters.value_or(json::object()));
  if (!targets) return targets.error();
  Desired* known = find_wanted(request.name);
  if (known == nullptr && wanted.size() >= kMaxPrograms) {
    return base::invalid_argument(
        "name", std::to_string(kMaxPrograms) + " programs are in force already", "remove one");
  }
  if (known == nullptr) known = &wanted.emplace_back();
  ActiveProgram& program = *made.value();
  program.name = request.name;
  program.since = next_step;
  program.keep = request.keep.value_or(false);
  if (request.ttl) program.until = next_step + static_cast<std::int64_t>(*request.ttl) - 1;
  program.targets = targets.value();
  *known = {program.name,  program.compiled, program.targets,           program.since,
            program.until, program.keep,     program.compiled->contents};
  has_changed = true;
  wanted_reason = "apply";
  return program.describe();
}

base::Result<json> Engine::State::set(const protocol::SetParameter& request) {
  Desired* known = find_wanted(request.name);
  if (known == nullptr) {
    return not_in_force(request.name);
  }
  const graph::Program& program = known->compiled->program;
  const graph::Parameter* parameter = find_parameter(program, request.parameter);
  if (parameter == nullptr) {
    std::vector<std::string> names;
    for (const graph::Parameter& one : program.parameters) names.push_back(one.name);
    return base::invalid_argument("parameter", "the program has no such parameter",
                                  "there are: " + json(names).dump());
  }
  if (auto status = check_number(*parameter, request.value); !status) return status.error();
  known->targets[parameter->name] = request.value.get<double>();
  has_changed = true;
  wanted_reason = "set";
  return json{{"value", request.value}};
}

base::Result<json> Engine::State::remove(const protocol::RemovePrograms& request) {
  std::vector<std::string> removed;
  if (!request.name) {
    for (const Desired& one : wanted) removed.push_back(one.name);
    wanted.clear();
  } else {
    if (find_wanted(*request.name) == nullptr) {
      return not_in_force(*request.name);
    }
    std::erase_if(wanted, [&](const Desired& one) { return one.name == *request.name; });
    removed.push_back(*request.name);
  }
  has_changed = has_changed || !removed.empty();
  wanted_reason = "remove";
  return json{{"removed", removed}};
}

json Engine::State::revert() {
  std::vector<std::string> removed;
  for (const Desired& one : wanted) {
    if (!one.keep) removed.push_back(one.name);
  }
  if (!removed.empty()) {
    std::erase_if(wanted, [](const Desired& one) { return !one.keep; });
    has_changed = true;
    wanted_reason = "lease";
  }
  return {{"removed", removed}};
}

base::Result<json> Engine::request(const protocol::ProgramRequest& request,
                                   std::int64_t next_step) {
  using Answer = base::Result<json>;
  return std::visit(
      base::Overloaded{
          [&](const protocol::ApplyProgram& body) { return state_->apply(body, next_step); },
          [&](const protocol::SetParameter& body) { return state_->set(body); },
          [&](const protocol::RemovePrograms& body) { return state_->remove(body); },
          [&](const protocol::RevertPrograms&) { return Answer(state_->revert()); }},
      request);
}

bool Engine::has_changes() const { return state_->has_changed; }

trace::ProgramChanges Engine::take_changes(std::int64_t next_step) {
  State& state = *state_;
  const auto is_over = [next_step](const Desired& one) {
    return one.until && *one.until < next_step;
  };
  if (std::erase_if(state.wanted, is_over) > 0) {
    state.has_changed = true;
    state.wanted_reason = "expired";
  }
  if (!std::exchange(state.has_changed, false)) return {};
  trace::ProgramChanges changes;
  json programs = json::array();
  for (Desired& one : state.wanted) {
    programs.push_back(to_json(one));
    changes.contents.vectors.merge(one.contents.vectors);
    changes.contents.tensors.merge(one.contents.tensors);
    one.contents = {};
  }
  changes.text = json{{"reason", state.wanted_reason}, {"programs", std::move(programs)}}.dump(
      -1, ' ', false, json::error_handler_t::replace);
  return changes;
}

// Global rank 0 has compiled the program for the request.
base::Result<std::shared_ptr<ActiveProgram>> Engine::State::start(const std::string& name,
                                                                  std::int64_t since,
                                                                  const json& program,
                                                                  const Context& received) {
  const Desired* asked = find_wanted(name);
  const bool is_here = asked != nullptr && asked->compiled->source == source_of(program);
  auto made = is_here ? base::Result(std::make_shared<ActiveProgram>(asked->compiled))
                      : make_active_program(program, received);
  if (!made) return made.error();
  made.value()->name = name;
  made.value()->since = since;
  return made;
}

base::Status Engine::prepare(const trace::ProgramChanges& changes) {
  State& state = *state_;
  state.prepared.clear();
  trace::ReceivedFiles files(changes.contents);
  const Context context = with_files(state.context, files);
  const json given = json::parse(changes.text);
  state.prepared_reason = given.at("reason");
  for (const json& one : given.at("programs")) {
    const std::string name = one.at("name");
    const std::int64_t since = one.at("since");
    Staged prepared{nullptr, one.at("parameters"), std::nullopt, one.at("keep")};
    if (one.contains("until")) prepared.until = one.at("until").get<std::int64_t>();
    const std::string source = source_of(one.at("program"));
    const auto known = std::ranges::find_if(state.in_force, [&](const auto& program) {
      return program->name == name && program->since == since &&
             program->compiled->source == source;
    });
    if (known != state.in_force.end()) {
      prepared.program = *known;
    } else {
      auto made = state.start(name, since, one.at("program"), context);
      if (!made) return made.error();
      prepared.program = std::move(made).value();
    }
    state.prepared.push_back(std::move(prepared));
  }
  return {};
}

void Engine::install(bool in_force) {
  State& state = *state_;
  if (in_force) {
    state.reason = state.prepared_reason;
    state.in_force.clear();
    for (Staged& one : state.prepared) {
      one.program->targets = std::move(one.targets);
      one.program->until = one.until;
      one.program->keep = one.keep;
      one.program->step = -1;
      state.in_force.push_back(std::move(one.program));
    }
  } else {
    state.reason = "failed";
    state.give_up_what_is_new();
  }
  state.prepared.clear();
}

bool Engine::give_up() {
  State& state = *state_;
  if (state.in_force.empty()) return false;
  state.in_force.clear();
  state.wanted.clear();
  state.reason = "failed";
  return true;
}

// What was removed or set meanwhile stays so, and is shared once more.
void Engine::State::give_up_what_is_new() {
  std::vector<Desired> stays;
  for (const auto& program : in_force) {
    const Desired* asked = find_wanted(program->name);
    if (asked == nullptr) continue;
    const bool is_same = asked->since == program->since && asked->compiled == program->compiled;
    stays.push_back(is_same ? *asked
                            : Desired{program->name, program->compiled, program->targets,
                                      program->since, program->until, program->keep});
    has_changed = has_changed || (is_same && asked->targets != program->targets);
  }
  if (stays.size() < in_force.size()) {
    has_changed = true;
    wanted_reason = "remove";
  }
  wanted = std::move(stays);
}

json Engine::describe(std::int64_t step) const {
  json programs = json::array();
  for (const auto& program : state_->in_force) programs.push_back(program->describe());
  return {{"step", step}, {"programs", std::move(programs)}, {"reason", state_->reason}};
}

}  // namespace tt::intervene

#include "tensor_tracer/intervene/engine.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "src/intervene/desired_programs.h"
#include "src/intervene/frame.h"

namespace tt::intervene {
namespace {

using nlohmann::json;

/// A program as a rank has read it, with what becomes its own once all ranks could.
struct Staged {
  std::shared_ptr<ActiveProgram> program;
  std::map<std::string, double> targets;
  std::optional<std::int64_t> until;
  bool keep = false;
};

/// The same run, whose programs read `files` alone.
Context with_files(Context context, trace::ReceivedFiles& files) {
  context.vectors = &files;
  context.files = &files;
  return context;
}

}  // namespace

struct Engine::State {
  State(Context about, const comm::ProcessGroup& along_tensor, const comm::ProcessGroup& all)
      : context(std::move(about)), tensor(along_tensor), world(all), desired(context) {}

  const Context context;
  const comm::ProcessGroup tensor;
  const comm::ProcessGroup world;

  ActivePrograms in_force;
  std::string reason = "apply";
  std::vector<Staged> staged;
  std::string staged_reason;
  DesiredPrograms desired;
  SavedValues saved;
  std::shared_ptr<ActiveProgram> preview;
  bool preview_acts = false;

  std::shared_ptr<const ExecutionPlan> plan;  // of the pass before this one
  std::vector<std::uint64_t> plan_key;
};

namespace {

// What is new to this rank is new to all; a rank that fails must not leave the others waiting in a
// collective.
std::shared_ptr<const Specialization> agree_on_specialization(ActiveProgram& program,
                                                              const Shape& shape,
                                                              const Context& context,
                                                              const comm::ProcessGroup& tensor) {
  const bool is_new = !program.ready.contains(shape);
  auto specialization = program.ready_for(shape, context);
  if (!is_new || tensor.size() == 1) return specialization;
  at::Tensor could =
      at::full({1}, specialization->error ? 0 : 1, at::device(at::kCPU).dtype(at::kInt));
  tensor.all_reduce(could);
  if (could.item<int>() < tensor.size() && !specialization->error) {
    auto refused = std::make_shared<Specialization>();
    refused->error =
        base::Error{"invalid_argument", "another rank could not compile the program", "", ""};
    specialization = program.ready[shape] = std::move(refused);
  }
  return specialization;
}

}  // namespace

Engine::Engine(Context context, const comm::ProcessGroup& tensor, const comm::ProcessGroup& world)
    : state_(std::make_unique<State>(std::move(context), tensor, world)) {}

Engine::~Engine() = default;

std::unique_ptr<trace::InterventionPass> Engine::begin(const trace::ForwardScope& scope,
                                                       const at::Tensor& tokens) {
  State& state = *state_;
  std::unique_ptr<Frame> frame;
  const auto add = [&](const std::shared_ptr<ActiveProgram>& program) {
    if (!program->is_due(scope, state.context.model)) return;
    if (state.preview == nullptr) program->counts.was_due = true;
    const auto specialization = agree_on_specialization(*program, {tokens.size(0), tokens.size(1)},
                                                        state.context, state.tensor);
    if (specialization->error) {
      if (state.preview == nullptr) ++program->counts.failed;
      return;
    }
    if (frame == nullptr) {
      SavedValues* saved = state.tensor.rank() == 0 ? &state.saved : nullptr;
      frame = std::make_unique<Frame>(
          ForwardEnv{state.context, state.tensor, scope, tokens, saved, state.preview != nullptr});
    }
    frame->add(program, specialization);
  };
  std::ranges::for_each(state.in_force, add);
  if (state.preview_acts) add(state.preview);
  if (frame == nullptr) return nullptr;
  // Passes of one kind use one plan over and over.
  if (state.plan == nullptr || state.plan_key != frame->plan_key()) {
    state.plan = std::make_shared<const ExecutionPlan>(frame->entries(), state.context);
    state.plan_key = frame->plan_key();
  }
  frame->start(state.plan);
  return frame;
}

base::Result<json> Engine::request(const protocol::ProgramRequest& request,
                                   std::int64_t next_step) {
  return state_->desired.request(request, next_step);
}

bool Engine::has_changes() const { return state_->desired.has_changes(); }

trace::ProgramChanges Engine::take_changes(std::int64_t next_step) {
  return state_->desired.take_changes(next_step);
}

base::Result<std::shared_ptr<ActiveProgram>> Engine::stage(const json& one,
                                                           const Context& received) const {
  const std::string name = one.at("name");
  const std::int64_t since = one.at("since");
  const std::string source = source_of(one.at("program"));
  const auto known = std::ranges::find_if(state_->in_force, [&](const auto& program) {
    return program->name == name && program->since == since && program->compiled->source == source;
  });
  if (known != state_->in_force.end()) return *known;
  // Global rank 0 has compiled the program for the request.
  const auto compiled = state_->desired.find_compiled(name, source);
  auto made = compiled != nullptr ? base::Result(std::make_shared<ActiveProgram>(compiled))
                                  : make_active_program(one.at("program"), received);
  if (!made) return made.error();
  made.value()->name = name;
  made.value()->since = since;
  return made;
}

base::Status Engine::prepare(const trace::ProgramChanges& changes) {
  State& state = *state_;
  state.staged.clear();
  trace::ReceivedFiles files(changes.contents);
  const Context context = with_files(state.context, files);
  const json given = json::parse(changes.text);
  state.staged_reason = given.at("reason");
  for (const json& one : given.at("programs")) {
    auto program = stage(one, context);
    if (!program) return program.error();
    Staged& staged = state.staged.emplace_back(std::move(program).value(), one.at("parameters"),
                                               std::nullopt, one.at("keep"));
    if (one.contains("until")) staged.until = one.at("until").get<std::int64_t>();
  }
  return {};
}

void Engine::install(bool in_force) {
  State& state = *state_;
  if (in_force) {
    state.reason = state.staged_reason;
    state.in_force.clear();
    for (Staged& one : state.staged) {
      one.program->targets = std::move(one.targets);
      one.program->until = one.until;
      one.program->keep = one.keep;
      one.program->step_values = nullptr;
      state.in_force.push_back(std::move(one.program));
    }
  } else {
    state.reason = "failed";
    state.desired.give_up_new(state.in_force);
  }
  state.staged.clear();
}

bool Engine::give_up() {
  State& state = *state_;
  if (state.in_force.empty()) return false;
  state.in_force.clear();
  state.desired.clear();
  state.reason = "failed";
  return true;
}

json Engine::describe(std::int64_t step) const {
  json programs = json::array();
  for (const auto& program : state_->in_force) programs.push_back(program->describe());
  return {{"step", step}, {"programs", std::move(programs)}, {"reason", state_->reason}};
}

std::optional<json> Engine::report(std::int64_t step) {
  return report_counts(state_->in_force, state_->tensor, state_->world, step);
}

std::vector<json> Engine::take_saved() {
  State& state = *state_;
  return gather_saved(std::exchange(state.saved, {}).notifications, state.in_force, state.tensor,
                      state.world);
}

base::Result<trace::FileContents> Engine::read_files(const json& params) {
  auto made = make_active_program(params.value("program", json()), state_->context);
  if (!made) return made.error();
  return std::move(made.value()->contents);
}

base::Status Engine::begin_preview(const json& params, const trace::FileContents& contents) {
  State& state = *state_;
  trace::ReceivedFiles files(contents);
  auto made =
      make_active_program(params.value("program", json()), with_files(state.context, files));
  if (!made) return made.error();
  ActiveProgram& program = *made.value();
  const json values = params.value("parameters", json::object());
  if (auto status = program.set_targets(values); !status) return status;
  program.name = "preview";
  program.is_preview = true;
  program.since = std::numeric_limits<std::int32_t>::min();  // past every ramp
  state.preview = std::move(made).value();
  return {};
}

void Engine::turn_preview(bool acts) { state_->preview_acts = acts; }

bool Engine::preview_writes_gradients() const {
  const graph::Program& program = state_->preview->program;
  return std::ranges::any_of(program.effects, [](const graph::Effect& effect) {
    return effect.kind == graph::EffectKind::kWrite && effect.place.gradient;
  });
}

json Engine::preview_writes() {
  return intervene::preview_writes(state_->preview, state_->tensor, state_->world);
}

void Engine::end_preview() {
  state_->preview = nullptr;
  state_->preview_acts = false;
}

}  // namespace tt::intervene

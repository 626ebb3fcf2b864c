#include "tensor_tracer/intervene/engine.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "src/intervene/state.h"

namespace tt::intervene {
namespace {

// Positions of a step that wait to be counted together: a step may have many evaluations.
constexpr std::int64_t kMaxTouched = 1 << 22;

}  // namespace

Engine::Engine(Context context, const comm::ProcessGroup& tensor, const comm::ProcessGroup& world)
    : state_(std::make_unique<State>(std::move(context), tensor, world)) {}

Engine::~Engine() = default;

at::Tensor Frame::act(const Action& action, const at::Tensor& now) {
  Run& run = runs[action.run];
  switch (action.kind) {
    case ActionKind::kGet:
      run.get(action.index, now);
      break;
    case ActionKind::kCompute:
      run.compute(action.index);
      break;
    case ActionKind::kWrite:
      return run.write(action.index, now);
    case ActionKind::kSave:
      run.save(action.index);
      break;
    case ActionKind::kSkip:
      break;
  }
  return now;
}

// What libtorch refuses, it refuses on all ranks of the tensor axis.
at::Tensor Frame::act(std::span<const Action> actions, at::Tensor now) {
  for (const Action& action : actions) {
    Run& run = runs[action.run];
    try {
      now = act(action, now);
    } catch (const c10::Error&) {
      run.fail();
    }
    for (const std::size_t value : action.frees) run.free(value);
  }
  return now;
}

// What is new to this rank is new to all; a rank that fails must not leave the others waiting in a
// collective.
std::shared_ptr<const Specialization> Engine::State::agree_on_ready(ActiveProgram& program,
                                                                    const Shape& shape) {
  const bool is_new = !program.ready.contains(shape);
  auto ready = program.ready_for(shape, context);
  if (!is_new || tensor.size() == 1) return ready;
  at::Tensor could = at::full({1}, ready->error ? 0 : 1, at::device(at::kCPU).dtype(at::kInt));
  tensor.all_reduce(could);
  if (could.item<int>() < tensor.size() && !ready->error) {
    auto refused = std::make_shared<Specialization>();
    refused->error =
        base::Error{"invalid_argument", "another rank could not compile the program", "", ""};
    ready = program.ready[shape] = std::move(refused);
  }
  return ready;
}

// A program's part of a forward that it is due in.
void Engine::State::add_runs(const std::shared_ptr<ActiveProgram>& program,
                             std::vector<Entry>& entries, std::vector<std::uint64_t>& made_of) {
  const ForwardEnv& around = frame->around;
  if (!program->is_due(around.scope, context.model)) return;
  program->begin_step(around.scope.step);
  program->acted_in = nullptr;
  program->counts.was_due = true;
  const auto ready = agree_on_ready(*program, {around.tokens.size(0), around.tokens.size(1)});
  if (ready->error) {
    ++program->counts.failed;
    return;
  }
  const at::Tensor selected = program->selected(around.scope, around.tokens);
  program->count_identity();
  made_of.insert(made_of.end(), program->is_identity.begin(), program->is_identity.end());
  made_of.push_back(reinterpret_cast<std::uintptr_t>(ready.get()));
  for (std::size_t i = 0; i < ready->instances.size(); ++i) {
    entries.push_back({&program->program, frame->programs.size(), ready, &ready->instances[i],
                       i == 0 ? &program->is_identity : &program->is_done});
    frame->runs.emplace_back(*program, ready, i, selected, around);
  }
  frame->programs.push_back(program);
}

// Forwards of one kind use one table over and over.
void Engine::State::use_table(const std::vector<Entry>& entries,
                              std::vector<std::uint64_t> made_of) {
  if (table == nullptr || made_of != table_is_for) {
    table = std::make_shared<const ExecutionPlan>(entries, context);
    table_is_for = std::move(made_of);
  }
  frame->table = table;
}

bool Engine::begin_forward(const trace::ForwardScope& scope, const at::Tensor& tokens) {
  State& state = *state_;
  state.frame = nullptr;
  if (state.in_force.empty() && !state.preview_acts) return false;
  const bool is_leader = state.tensor.rank() == 0;
  state.frame =
      std::make_shared<Frame>(ForwardEnv{state.context, state.tensor, scope, tokens,
                                         is_leader ? &state.saved : nullptr, &state.numbers_sent});
  std::vector<Entry> entries;
  std::vector<std::uint64_t> made_of;
  for (const auto& program : state.in_force) state.add_runs(program, entries, made_of);
  if (state.preview_acts) state.add_runs(state.preview, entries, made_of);
  if (entries.empty()) {
    state.frame = nullptr;
    return false;
  }
  state.use_table(entries, std::move(made_of));
  acts_ = state.frame->table->acts();
  state.frame->act(state.frame->table->at_once(), tokens);
  return true;
}

// Gradients are changed and read by hooks, which are no nodes of the graph.
void Engine::State::watch_gradient(const at::Tensor& value, std::size_t key) {
  const std::span<const Action> actions = frame->table->at(key);
  if (actions.empty() || !value.requires_grad()) return;
  value.register_hook([frame = frame, actions](const at::Tensor& gradient) {
    const at::NoGradGuard no_grad;
    return frame->act(actions, gradient);
  });
}

at::Tensor Engine::at_point(const points::PlaceKey& place, const at::Tensor& local) {
  State& state = *state_;
  const points::PlaceTable& places = state.context.places();
  const auto actions = state.frame->table->at(action_key(place, false, places));
  at::Tensor now = actions.empty() ? local : state.frame->act(actions, local);
  state.watch_gradient(now, action_key(place, true, places));
  return now;
}

bool Engine::reads(const points::PlaceKey& place) const {
  return !state_->frame->table->at(action_key(place, false, state_->context.places())).empty();
}

bool Engine::writes(const points::PlaceKey& place) const {
  return std::ranges::any_of(
      state_->frame->table->at(action_key(place, false, state_->context.places())),
      [](const Action& action) { return action.kind == ActionKind::kWrite; });
}

bool Engine::skips(int layer) {
  Frame& frame = *state_->frame;
  bool is_skipped = false;
  for (const Action& action : frame.table->skips_of(layer)) {
    if (frame.runs[action.run].skips(action.index)) is_skipped = true;
  }
  return is_skipped;
}

// Values hold the graph, whose hooks hold the frame.
void Engine::end_pass() {
  Frame* frame = state_->frame.get();
  if (frame == nullptr) return;
  frame->runs.clear();
  for (const auto& program : frame->programs) program->end_pass(frame->around.scope);
  state_->frame = nullptr;
  state_->join_touched(kMaxTouched);
}

}  // namespace tt::intervene

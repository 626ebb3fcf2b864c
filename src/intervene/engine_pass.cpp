#include "src/intervene/engine_pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "src/intervene/report.h"

namespace tt::intervene {
namespace {

// Limit of positions that wait until the ranks join them: a step may have many evaluation passes.
constexpr std::int64_t kMaxTouched = 1 << 22;

}  // namespace

EnginePass::EnginePass(ForwardEnv env)
    : env_(std::move(env)), self_(std::make_shared<EnginePass*>(this)) {}

void EnginePass::add(std::shared_ptr<ActiveProgram> program,
                     const std::shared_ptr<const Specialization>& specialization) {
  at::Tensor selected = program->selected(env_.scope, env_.tokens, env_.context.token_texts.get());
  if (const at::Tensor& writable = env_.tokens.writable; writable.defined())
    selected = selected.defined() ? selected.logical_and(writable) : writable;
  auto values = program->values_of_step(env_.scope.step);
  const int stage = env_.scope.stage;
  if (env_.is_preview == program->is_preview && !env_.scope.is_copy)
    program->count_identity(*values, stage);
  plan_key_.insert(plan_key_.end(), values->is_identity.begin(), values->is_identity.end());
  plan_key_.push_back(reinterpret_cast<std::uintptr_t>(specialization.get()));
  plan_key_.push_back(static_cast<std::uint64_t>(stage));
  ProgramPass& pass = programs_.emplace_back(ProgramPass{std::move(program), std::move(values)});
  pass.has_acted = stage != pass.program->first_stage();  // which counts the forward
  for (std::size_t i = 0; i < specialization->layers.size(); ++i) {
    entries_.push_back({&pass.program->program, programs_.size() - 1, specialization,
                        &specialization->layers[i], left_out(pass, i)});
    runs_.emplace_back(pass, specialization, i, selected, env_);
  }
}

// The effects that are not executed in this pass for the program's i-th layer.
const std::vector<bool>* EnginePass::left_out(ProgramPass& pass, std::size_t i) const {
  const std::vector<bool>* of_step = i == 0 ? &pass.values->is_identity : &pass.values->is_done;
  if (env_.context.places().num_stages() == 1) return of_step;
  std::vector<bool>& all = pass.left_out.emplace_back(*of_step);
  for (std::size_t effect = 0; effect < all.size(); ++effect)
    if (pass.program->stages[i][effect] != env_.scope.stage) all[effect] = true;
  return &all;
}

void EnginePass::start(std::shared_ptr<const ExecutionPlan> plan) {
  plan_ = std::move(plan);
  acts_ = plan_->acts();
  is_met_.resize(num_action_keys(env_.context.places()), false);
  act(plan_->at_once(), env_.tokens.ids);
}

at::Tensor EnginePass::act(const Action& action, const at::Tensor& now) {
  Run& run = runs_[action.run];
  if (action.kind == ActionKind::kWrite) return run.write(action.index, now);
  if (action.kind == ActionKind::kGet) run.get(action.index, now);
  if (action.kind == ActionKind::kCompute) run.compute(action.index);
  if (action.kind == ActionKind::kSave) run.save(action.index);
  return now;
}

// A libtorch error occurs on all ranks of the tensor axis, so no rank waits alone in a collective.
at::Tensor EnginePass::act(std::span<const Action> actions, at::Tensor now) {
  for (const Action& action : actions) {
    Run& run = runs_[action.run];
    try {
      now = act(action, now);
    } catch (const c10::Error&) {
      run.fail();
    }
    for (const std::size_t value : action.frees) run.free(value);
  }
  return now;
}

std::size_t EnginePass::key_of(const points::PlaceKey& place, bool gradient) const {
  return action_key(place, gradient, env_.context.places());
}

// A tensor hook adds no node to the graph. If the forward reaches a place twice, the first tensor
// in the graph gets the hook.
void EnginePass::watch_gradient(const at::Tensor& value, std::size_t key) {
  const std::span<const Action> actions = plan_->at(key);
  if (actions.empty() || is_met_[key] || !value.requires_grad()) return;
  is_met_[key] = true;
  value.register_hook([weak = std::weak_ptr(self_), actions](const at::Tensor& gradient) {
    const auto pass = weak.lock();
    if (pass == nullptr) return gradient;
    const at::NoGradGuard no_grad;
    (*pass)->env_.is_repeat = false;
    return (*pass)->act(actions, gradient);
  });
}

at::Tensor EnginePass::at_point(const points::PlaceKey& place, const at::Tensor& local) {
  const std::size_t key = key_of(place, /*gradient=*/false);
  const auto actions = plan_->at(key);
  env_.is_repeat = is_met_[key];
  is_met_[key] = true;
  at::Tensor now = actions.empty() ? local : act(actions, local);
  watch_gradient(now, key_of(place, /*gradient=*/true));
  return now;
}

bool EnginePass::reads(const points::PlaceKey& place) const {
  return !plan_->at(key_of(place, /*gradient=*/false)).empty();
}

bool EnginePass::writes(const points::PlaceKey& place) const {
  return std::ranges::any_of(
      plan_->at(key_of(place, /*gradient=*/false)),
      [](const Action& action) { return action.kind == ActionKind::kWrite; });
}

bool EnginePass::skips(int layer) {
  const auto actions = plan_->skips_of(layer);
  if (actions.empty()) return false;
  const auto [decision, is_new] = skips_.try_emplace(layer, false);
  if (!is_new) return decision->second;
  env_.is_repeat = false;
  for (const Action& action : actions)
    if (runs_[action.run].skips(action.index)) decision->second = true;
  return decision->second;
}

// Values hold the graph. The hooks of the graph do not hold the pass.
void EnginePass::end() {
  self_ = nullptr;
  runs_.clear();
  std::vector<std::shared_ptr<ActiveProgram>> programs;
  for (ProgramPass& pass : programs_) {
    if (!env_.is_preview) pass.program->kept[kind_of(env_.scope)] = std::move(pass.saves);
    programs.push_back(std::move(pass.program));
  }
  programs_.clear();
  join_touched(programs, *env_.tensor, kMaxTouched);
}

}  // namespace tt::intervene

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "src/intervene/execution_plan.h"
#include "src/intervene/run.h"
#include "tensor_tracer/trace/intervention_pass.h"

namespace tt::intervene {

/// The programs that act in one pass, their values so far, and the execution plan.
class EnginePass final : public trace::InterventionPass {
 public:
  explicit EnginePass(ForwardEnv env);

  /// Adds a program that is due in this pass. REQUIRES: start() was not called yet.
  void add(std::shared_ptr<ActiveProgram> program,
           const std::shared_ptr<const Specialization>& specialization);
  /// The entries that the execution plan is made from, and a key that is equal for equal plans.
  const std::vector<Entry>& entries() const { return entries_; }
  const std::vector<std::uint64_t>& plan_key() const { return plan_key_; }
  void start(std::shared_ptr<const ExecutionPlan> plan);

  at::Tensor at_point(const points::PlaceKey& place, const at::Tensor& local) override;
  bool reads(const points::PlaceKey& place) const override;
  bool writes(const points::PlaceKey& place) const override;
  bool skips(int layer) override;
  void end() override;

 private:
  const std::vector<bool>* left_out(ProgramPass& pass, std::size_t i) const;
  at::Tensor act(std::span<const Action> actions, at::Tensor now);
  at::Tensor act(const Action& action, const at::Tensor& now);
  void watch_gradient(const at::Tensor& value, std::size_t key);
  std::size_t key_of(const points::PlaceKey& place, bool gradient) const;

  ForwardEnv env_;
  std::deque<ProgramPass> programs_;
  std::vector<Run> runs_;
  std::vector<Entry> entries_;
  std::vector<std::uint64_t> plan_key_;
  std::shared_ptr<const ExecutionPlan> plan_;
  std::vector<bool> is_met_;           // by action_key(): reached; of a gradient: has a tensor hook
  std::map<int, bool> skips_;          // by layer, after the decision
  std::shared_ptr<EnginePass*> self_;  // tensor hooks hold a weak_ptr; null after end()
};

}  // namespace tt::intervene

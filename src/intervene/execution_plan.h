#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/intervene/active_program.h"

namespace tt::intervene {

enum class ActionKind : std::uint8_t { kGet, kCompute, kWrite, kSave, kSkip };

/// One action at a place of the forward or the backward.
struct Action {
  ActionKind kind = ActionKind::kGet;
  std::size_t run = 0;                  // index in the forward's runs
  std::size_t index = 0;                // of the getter, value, write or effect
  std::vector<std::size_t> frees = {};  // values that this action uses last
};

/// A program for one layer of a pass.
struct Entry {
  const graph::Program* program = nullptr;
  std::size_t program_index = 0;  // among the programs that act
  std::shared_ptr<const Specialization> specialization = {};
  const LayerSpecialization* layer = nullptr;      // of `specialization`
  const std::vector<bool>* is_left_out = nullptr;  // by effect: true if it is not executed
};

/// The actions at each place of one forward, by action_key(). Programs run in their order; the
/// lines of a program run in their order. Values that only effects without execution use are not
/// computed.
class ExecutionPlan {
 public:
  ExecutionPlan() = default;
  ExecutionPlan(const std::vector<Entry>& entries, const Context& context);

  /// Actions before the first place: values without a place, and values of the tokens.
  std::span<const Action> at_once() const { return at(keys_); }
  std::span<const Action> at(std::size_t key) const {
    return {actions_.data() + begin_[key], begin_[key + 1] - begin_[key]};
  }
  /// kSkip actions of this layer, to run at the layer's input.
  std::span<const Action> skips_of(int layer) const;
  bool empty() const { return actions_.empty(); }
  /// By PlaceKey::index: true if the place or its gradient has actions.
  const bool* acts() const { return acts_.get(); }

 private:
  std::size_t keys_ = 0;
  std::vector<Action> actions_;
  std::vector<std::size_t> begin_;  // by key; the last key holds the actions of at_once()
  std::unique_ptr<bool[]> acts_;
  std::vector<std::vector<Action>> skips_;  // by layer
  /// Kept alive, because the plan's key (EnginePass::plan_key) contains their addresses.
  std::vector<std::shared_ptr<const Specialization>> specializations_;
};

}  // namespace tt::intervene

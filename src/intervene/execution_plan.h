#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/intervene/active_program.h"

namespace tt::intervene {

enum class ActionKind : std::uint8_t { kGet, kCompute, kWrite, kSave, kSkip };

/// One thing to do when the forward or the backward meets a place.
struct Action {
  ActionKind kind = ActionKind::kGet;
  std::size_t run = 0;                  // index in the forward's runs
  std::size_t index = 0;                // of the getter, value, write or effect
  std::vector<std::size_t> frees = {};  // values whose last use this is
};

/// A program for one layer of a pass.
struct Entry {
  const graph::Program* program = nullptr;
  std::size_t program_index = 0;  // of those that act
  std::shared_ptr<const Specialization> specialization = {};
  const LayerSpecialization* layer = nullptr;      // of `specialization`
  const std::vector<bool>* is_left_out = nullptr;  // by effect: not executed
};

/// What is to be done at each place of one forward, by action_key(): programs in their order, in
/// each the lines in theirs. Values that only serve what is left out are not computed.
class ExecutionPlan {
 public:
  ExecutionPlan() = default;
  ExecutionPlan(const std::vector<Entry>& entries, const Context& context);

  /// Before the first place: values without a place, and those of the tokens.
  std::span<const Action> at_once() const { return at(keys_); }
  std::span<const Action> at(std::size_t key) const {
    return {actions_.data() + begin_[key], begin_[key + 1] - begin_[key]};
  }
  /// kSkip actions of this layer, met at its input.
  std::span<const Action> skips_of(int layer) const;
  bool empty() const { return actions_.empty(); }
  /// By PlaceKey::index: whether it or its gradient has actions.
  const bool* acts() const { return acts_.get(); }

 private:
  std::size_t keys_ = 0;
  std::vector<Action> actions_;
  std::vector<std::size_t> begin_;  // by key, and one more for what is at once
  std::unique_ptr<bool[]> acts_;
  std::vector<std::vector<Action>> skips_;  // by layer
  /// Alive, because their addresses are in the key under which the plan is found again.
  std::vector<std::shared_ptr<const Specialization>> specializations_;
};

}  // namespace tt::intervene

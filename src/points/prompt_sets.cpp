#include "tensor_tracer/points/prompt_sets.h"

#include <algorithm>
#include <utility>

namespace tt::points {

PromptSets::PromptSets(List sets) : shared_(std::make_shared<Shared>()) {
  replace(std::move(sets));
}

std::shared_ptr<const PromptSets::List> PromptSets::now() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->list;
}

void PromptSets::replace(List sets) {
  auto list = std::make_shared<const List>(std::move(sets));
  const std::lock_guard lock(shared_->mutex);
  shared_->list = std::move(list);
}

std::optional<std::uint32_t> PromptSets::find(std::string_view name) const {
  const auto sets = now();
  const auto found = std::ranges::find_if(
      *sets, [name](const PromptShape& set) { return !set.is_removed && set.name == name; });
  if (found == sets->end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - sets->begin()) + 1;
}

std::vector<std::string> PromptSets::names() const {
  std::vector<std::string> names;
  const auto sets = now();
  for (const PromptShape& set : *sets)
    if (!set.is_removed) names.push_back(set.name);
  return names;
}

}  // namespace tt::points

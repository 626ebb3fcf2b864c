#include <algorithm>
#include <set>

#include "src/graph/steps.h"

namespace tt::graph {
namespace {

using NameSet = std::set<std::string>;

// The saves that each value reads, directly or through other names.
std::vector<NameSet> find_needed(const Program& program) {
  std::vector<NameSet> needed(program.values.size());
  for (std::size_t i = 0; i < needed.size(); ++i) {
    for (const Leaf& leaf : program.values[i].leaves) {
      if (leaf.kind == LeafKind::kSaved) needed[i].insert(leaf.name);
      if (leaf.kind == LeafKind::kBinding)
        needed[i].insert(needed[leaf.value].begin(), needed[leaf.value].end());
    }
  }
  return needed;
}

// The saves that can get a value: first the saves that need no other save, then the saves that need
// only these.
NameSet find_kept(const Program& program) {
  const std::vector<NameSet> needed = find_needed(program);
  NameSet kept;
  const auto can_be_kept = [&](std::size_t value) {
    return std::ranges::includes(kept, needed[value]);
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (const Effect& effect : program.effects) {
      if (effect.kind != EffectKind::kSave || kept.contains(effect.name)) continue;
      if (!can_be_kept(effect.value)) continue;
      if (effect.condition && !can_be_kept(*effect.condition)) continue;
      changed = kept.insert(effect.name).second;
    }
  }
  return kept;
}

}  // namespace

bool check_saves(Reading& reading, const Program& program) {
  std::vector<std::string> saves;
  for (const Effect& effect : program.effects)
    if (effect.kind == EffectKind::kSave) saves.push_back(effect.name);
  const NameSet kept = find_kept(program);
  for (const Value& value : program.values) {
    for (const Leaf& leaf : value.leaves) {
      if (leaf.kind != LeafKind::kSaved || kept.contains(leaf.name)) continue;
      const expr::Span span = reading.node(leaf.node).span;
      const std::string name = in_quotes(leaf.name);
      if (std::ranges::find(saves, leaf.name) == saves.end()) {
        return reading.fail(span, "no line saves " + name + expr::suggestion(leaf.name, saves),
                            "write save(..., " + name + ")");
      }
      return reading.fail(span, name + " is never kept: the line that saves it waits for it",
                          "save a value that can be computed without it");
    }
  }
  return true;
}

}  // namespace tt::graph

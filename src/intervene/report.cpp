// What programs did, summed over ranks; and previews, which are measured and leave nothing.

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "src/intervene/state.h"

namespace tt::intervene {
namespace {

using nlohmann::json;

constexpr std::int64_t kPerProgram = 7;  // numbers in front of those of its effects

// Ranks of one tensor group do the same; their first one counts for all.
void append(std::vector<std::int64_t>& sums, const Counts& counts, bool counts_here) {
  const std::int64_t once = counts_here ? 1 : 0;
  sums.insert(sums.end(), {counts.acted ? 1 : 0, counts.was_due ? 1 : 0, once * counts.forwards,
                           once * counts.positions, once * counts.identity, once * counts.waiting,
                           once * counts.failed});
  for (const std::int64_t positions : counts.writes) sums.push_back(once * positions);
}

json writes_of(const InForce& program, const std::int64_t* positions) {
  json writes = json::array();
  for (std::size_t i = 0; i < program.program.effects.size(); ++i) {
    const graph::Effect& effect = program.program.effects[i];
    if (effect.kind != graph::EffectKind::kWrite) continue;
    writes.push_back({{"place", graph::to_string(effect.place)}, {"positions", positions[i]}});
  }
  return writes;
}

json to_json(const InForce& program, const std::int64_t* sums) {
  return {{"name", program.name},
          {"ranks", sums[0]},
          {"of_ranks", sums[1]},
          {"forwards", sums[2]},
          {"positions", sums[3]},
          {"identity", sums[4]},
          {"waiting", sums[5]},
          {"failed", sums[6]},
          {"writes", writes_of(program, sums + kPerProgram)}};
}

Counts fresh_counts(const InForce& program) {
  Counts counts;
  counts.writes.resize(program.program.effects.size());
  return counts;
}

// The texts of all ranks on global rank 0, in the order of ranks.
std::vector<std::string> gather_texts(const std::string& own, const comm::ProcessGroup& world) {
  at::Tensor sizes = at::zeros({world.size()}, at::kLong);
  const at::Tensor size = at::full({1}, static_cast<std::int64_t>(own.size()), at::kLong);
  world.all_gather(size, sizes);
  std::vector<std::size_t> counts;
  std::size_t total = 0;
  for (int rank = 0; rank < world.size(); ++rank) {
    counts.push_back(static_cast<std::size_t>(sizes[rank].item<std::int64_t>()));
    total += counts.back();
  }
  std::string all(world.rank() == 0 ? total : 0, '\0');
  world
      .gather_bytes(std::as_bytes(std::span(own)), counts, std::as_writable_bytes(std::span(all)),
                    0)
      .wait();
  std::vector<std::string> texts;
  for (std::size_t begin = 0; begin < all.size();) {
    texts.push_back(all.substr(begin, counts[texts.size()]));
    begin += counts[texts.size() - 1];
  }
  return texts;
}

bool sends_saves(const InForce& program) {
  return std::ranges::any_of(program.program.effects, [](const graph::Effect& effect) {
    return effect.kind == graph::EffectKind::kSave && effect.sends;
  });
}

}  // namespace

std::vector<json> Engine::take_saved() {
  State& state = *state_;
  std::vector<json> own = std::exchange(state.saved, {});
  state.numbers_sent = 0;
  const bool is_one = state.world.size() == state.tensor.size();
  if (is_one ||
      std::ranges::none_of(state.in_force, [](const auto& one) { return sends_saves(*one); })) {
    return own;
  }
  std::vector<json> all;
  for (const std::string& text : gather_texts(json(own).dump(), state.world)) {
    for (json& one : json::parse(text)) all.push_back(std::move(one));
  }
  return all;
}

std::optional<json> Engine::report(std::int64_t step) {
  State& state = *state_;
  if (state.in_force.empty()) return std::nullopt;
  std::vector<std::int64_t> sums;
  for (const auto& program : state.in_force) {
    append(sums, program->counts, state.tensor.rank() == 0);
    program->counts = fresh_counts(*program);
  }
  at::Tensor total = at::tensor(sums, at::kLong);
  state.world.all_reduce(total);
  if (state.world.rank() != 0) return std::nullopt;
  json programs = json::array();
  const auto* next = total.const_data_ptr<std::int64_t>();
  for (const auto& program : state.in_force) {
    programs.push_back(to_json(*program, next));
    next += kPerProgram + static_cast<std::int64_t>(program->counts.writes.size());
  }
  return json{{"step", step}, {"programs", std::move(programs)}};
}

base::Status Engine::begin_preview(const json& params) {
  State& state = *state_;
  auto made = make_in_force(params.value("program", json()), state.context);
  if (!made) return made.error();
  InForce& program = *made.value();
  auto targets = targets_of(program, params);
  if (!targets) return targets.error();
  program.targets = std::move(targets).value();
  program.name = "preview";
  program.is_preview = true;
  program.since = std::numeric_limits<std::int32_t>::min();  // past every ramp
  state.preview = std::move(made).value();
  state.saved_before = state.saved.size();
  for (const auto& one : state.in_force) {
    state.counts_before.push_back(one->counts);
    state.kept_before.push_back(one->kept);
  }
  return {};
}

void Engine::turn_preview(bool acts) { state_->preview_acts = acts; }

json Engine::preview_writes() {
  const State& state = *state_;
  const InForce& program = *state.preview;
  const double once = state.tensor.rank() == 0 ? 1.0 : 0.0;
  std::vector<double> sums;
  for (std::size_t i = 0; i < program.changes.size(); ++i) {
    sums.insert(sums.end(), {once * program.changes[i].before, once * program.changes[i].change,
                             once * static_cast<double>(program.counts.writes[i])});
  }
  at::Tensor total = at::tensor(sums, at::kDouble);
  state.world.all_reduce(total);
  json writes = json::array();
  const double* next = total.const_data_ptr<double>();
  for (const graph::Effect& effect : program.program.effects) {
    if (effect.kind == graph::EffectKind::kWrite) {
      writes.push_back({{"place", graph::to_string(effect.place)},
                        {"positions", static_cast<std::int64_t>(next[2])},
                        {"norm_before", std::sqrt(next[0])},
                        {"norm_change", std::sqrt(next[1])}});
    }
    next += 3;
  }
  return writes;
}

void Engine::end_preview() {
  State& state = *state_;
  for (std::size_t i = 0; i < state.in_force.size(); ++i) {
    state.in_force[i]->counts = state.counts_before[i];
    state.in_force[i]->kept = std::move(state.kept_before[i]);
  }
  state.counts_before.clear();
  state.kept_before.clear();
  state.saved.resize(state.saved_before);
  state.preview = nullptr;
  state.preview_acts = false;
}

}  // namespace tt::intervene

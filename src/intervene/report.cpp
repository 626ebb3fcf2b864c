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

constexpr std::int64_t kPerProgram = 7;  // numbers in front of those of its places

// Ranks of one tensor group do the same; their first one counts for all.
void append(std::vector<std::int64_t>& sums, const Counts& counts, bool counts_here) {
  const std::int64_t once = counts_here ? 1 : 0;
  sums.insert(sums.end(), {counts.acted ? 1 : 0, counts.was_due ? 1 : 0, once * counts.forwards,
                           once * counts.positions, once * counts.identity, once * counts.waiting,
                           once * counts.failed});
  for (const std::int64_t positions : counts.places) sums.push_back(once * positions);
}

/// Goes through the places of a program that a report names: those of writes and skips, for the
/// layers that they are about.
template <typename Visit>
void for_each_place(const ActiveProgram& program, Visit&& visit) {
  for (std::size_t effect = 0; effect < program.program.effects.size(); ++effect) {
    const graph::Effect& one = program.program.effects[effect];
    if (one.kind == graph::EffectKind::kSave) continue;
    const std::size_t layers = program.says_layer[effect] ? program.layers.size() : 1;
    for (std::size_t i = 0; i < layers; ++i) {
      const graph::Place place = one.place.in(program.layers[i]);
      visit(one,
            one.kind == graph::EffectKind::kSkip
                ? "skip(layers[" + std::to_string(place.layer->number) + "])"
                : graph::to_string(place),
            program.place_of(effect, i));
    }
  }
}

json writes_of(const ActiveProgram& program, const std::int64_t* positions) {
  json writes = json::array();
  for_each_place(program, [&](const graph::Effect&, const std::string& name, std::size_t place) {
    writes.push_back({{"place", name}, {"positions", positions[place]}});
  });
  return writes;
}

json to_json(const ActiveProgram& program, const std::int64_t* sums) {
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

Counts fresh_counts(const ActiveProgram& program) {
  Counts counts;
  counts.places.resize(program.num_places());
  return counts;
}

// The texts of all ranks on global rank 0, in the order of ranks.
std::vector<std::string> gather_texts(const std::string& own, const comm::ProcessGroup& world) {
  const auto options = at::device(at::kCPU).dtype(at::kLong);
  at::Tensor sizes = at::zeros({world.size()}, options);
  const at::Tensor size = at::full({1}, static_cast<std::int64_t>(own.size()), options);
  world.all_gather(size, sizes);
  std::vector<std::size_t> counts;
  std::size_t total = 0;
  for (int rank = 0; rank < world.size(); ++rank) {
    counts.push_back(static_cast<std::size_t>(sizes[rank].item<std::int64_t>()));
    total += counts.back();
  }
  std::string all(world.rank() == 0 ? total : 0, '\0');
  world.gather_all_bytes(comm::host_bytes(std::as_bytes(std::span(own))), counts,
                         comm::host_bytes(std::as_bytes(std::span(all))), 0);
  std::vector<std::string> texts;
  for (std::size_t begin = 0; begin < all.size();) {
    texts.push_back(all.substr(begin, counts[texts.size()]));
    begin += counts[texts.size() - 1];
  }
  return texts;
}

bool sends_saves(const ActiveProgram& program) {
  return std::ranges::any_of(program.program.effects, [](const graph::Effect& effect) {
    return effect.kind == graph::EffectKind::kSave && effect.sends;
  });
}

}  // namespace

// A position counts once, whoever reached it. All ranks of the tensor axis have touched the same
// places, so they are at one whether there is a message.
void Engine::State::join_touched(std::int64_t more_than) {
  std::vector<std::shared_ptr<ActiveProgram>> programs = in_force;
  if (preview != nullptr) programs.push_back(preview);
  std::vector<at::Tensor> masks;
  std::int64_t numbers = 0;
  for (const auto& program : programs) {
    for (const Touched& one : program->counts.touched) {
      masks.push_back(one.positions.flatten());
      numbers += one.positions.numel();
    }
  }
  if (numbers <= more_than) return;
  at::Tensor joined = at::cat(masks).to(at::kInt);
  tensor.all_reduce(joined, comm::ReduceOp::kMax);
  std::int64_t begin = 0;
  for (const auto& program : programs) {
    Counts& counts = program->counts;
    for (const Touched& one : std::exchange(counts.touched, {})) {
      const std::int64_t size = one.positions.numel();
      const auto positions = joined.narrow(0, begin, size).sum().item<std::int64_t>();
      counts.positions += positions;
      counts.places[one.place] += positions;
      begin += size;
    }
  }
}

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
  state.join_touched(0);
  std::vector<std::int64_t> sums;
  for (const auto& program : state.in_force) {
    append(sums, program->counts, state.tensor.rank() == 0);
    program->counts = fresh_counts(*program);
  }
  at::Tensor total = at::tensor(sums, at::device(at::kCPU).dtype(at::kLong));
  state.world.all_reduce(total);
  if (state.world.rank() != 0) return std::nullopt;
  json programs = json::array();
  const auto* next = total.const_data_ptr<std::int64_t>();
  for (const auto& program : state.in_force) {
    programs.push_back(to_json(*program, next));
    next += kPerProgram + static_cast<std::int64_t>(program->num_places());
  }
  return json{{"step", step}, {"programs", std::move(programs)}};
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
  auto targets = targets_of(program, params.value("parameters", json::object()));
  if (!targets) return targets.error();
  program.targets = std::move(targets).value();
  program.name = "preview";
  program.is_preview = true;
  program.since = std::numeric_limits<std::int32_t>::min();  // past every ramp
  state.preview = std::move(made).value();
  state.saved_before = state.saved.size();
  state.numbers_sent_before = state.numbers_sent;
  for (const auto& one : state.in_force) {
    state.counts_before.push_back(one->counts);
    state.kept_before.push_back(one->kept);
  }
  return {};
}

void Engine::turn_preview(bool acts) { state_->preview_acts = acts; }

bool Engine::preview_writes_gradients() const {
  return std::ranges::any_of(state_->preview->program.effects, [](const graph::Effect& effect) {
    return effect.kind == graph::EffectKind::kWrite && effect.place.gradient;
  });
}

json Engine::preview_writes() {
  State& state = *state_;
  state.join_touched(0);
  const ActiveProgram& program = *state.preview;
  const double once = state.tensor.rank() == 0 ? 1.0 : 0.0;
  std::vector<double> sums;
  for (std::size_t i = 0; i < program.changes.size(); ++i) {
    sums.insert(sums.end(), {once * program.changes[i].before, once * program.changes[i].change,
                             once * static_cast<double>(program.counts.places[i])});
  }
  at::Tensor total = at::tensor(sums, at::device(at::kCPU).dtype(at::kDouble));
  state.world.all_reduce(total);
  json writes = json::array();
  const double* numbers = total.const_data_ptr<double>();
  for_each_place(program,
                 [&](const graph::Effect& effect, const std::string& name, std::size_t at) {
                   if (effect.kind != graph::EffectKind::kWrite) return;
                   const double* of_place = numbers + 3 * at;
                   writes.push_back({{"place", name},
                                     {"positions", static_cast<std::int64_t>(of_place[2])},
                                     {"norm_before", std::sqrt(of_place[0])},
                                     {"norm_change", std::sqrt(of_place[1])}});
                 });
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
  state.numbers_sent = state.numbers_sent_before;
  state.preview = nullptr;
  state.preview_acts = false;
}

}  // namespace tt::intervene

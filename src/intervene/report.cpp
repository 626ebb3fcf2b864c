#include "src/intervene/report.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include "tensor_tracer/protocol/message.h"

namespace tt::intervene {
namespace {

using nlohmann::json;

constexpr std::int64_t kPerProgram = 7;  // numbers before the numbers of the places

// All ranks of a tensor group do the same work; the first rank counts for all.
void append(std::vector<std::int64_t>& sums, const Counts& counts, bool counts_here) {
  const std::int64_t once = counts_here ? 1 : 0;
  sums.insert(sums.end(), {counts.acted ? 1 : 0, counts.was_due ? 1 : 0, once * counts.forwards,
                           once * counts.positions, once * counts.identity, once * counts.waiting,
                           once * counts.failed});
  for (const std::int64_t positions : counts.places) sums.push_back(once * positions);
}

/// Visits the places of a program that a report lists: the places of writes and skips, for their
/// layers.
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

// Gathers the texts of all ranks on global rank 0, in the order of ranks.
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
  return std::ranges::any_of(
      program.program.effects,
      [](const graph::Effect& effect) {
        return effect.kind == graph::EffectKind::kSave && effect.sends;
      });
}

}  // namespace

// A position counts once, even if several ranks reached it. All ranks of the tensor axis have the
// same list of writes, so they agree whether to send a message.
void join_touched(const ActivePrograms& programs, const comm::ProcessGroup& tensor,
                  std::int64_t more_than) {
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

std::vector<json> gather_saved(std::vector<json> own, const ActivePrograms& in_force,
                               const comm::ProcessGroup& tensor, const comm::ProcessGroup& world) {
  if (world.size() == tensor.size() ||
      std::ranges::none_of(in_force, [](const auto& one) { return sends_saves(*one); }))
    return own;
  std::vector<json> all;
  for (const std::string& text : gather_texts(protocol::encode_json(std::move(own)), world))
    for (json& one : json::parse(text)) all.push_back(std::move(one));
  return all;
}

std::optional<json> report_counts(const ActivePrograms& in_force, const comm::ProcessGroup& tensor,
                                  const comm::ProcessGroup& world, std::int64_t step) {
  if (in_force.empty()) return std::nullopt;
  join_touched(in_force, tensor, 0);
  std::vector<std::int64_t> sums;
  for (const auto& program : in_force) {
    append(sums, program->counts, tensor.rank() == 0);
    program->counts = {};
    program->counts.places.resize(program->num_places());
  }
  at::Tensor total = at::tensor(sums, at::device(at::kCPU).dtype(at::kLong));
  world.all_reduce(total);
  if (world.rank() != 0) return std::nullopt;
  json programs = json::array();
  const auto* next = total.const_data_ptr<std::int64_t>();
  for (const auto& program : in_force) {
    programs.push_back(to_json(*program, next));
    next += kPerProgram + static_cast<std::int64_t>(program->num_places());
  }
  return json{{"step", step}, {"programs", std::move(programs)}};
}

json preview_writes(const std::shared_ptr<ActiveProgram>& preview, const comm::ProcessGroup& tensor,
                    const comm::ProcessGroup& world) {
  join_touched({preview}, tensor, 0);
  const double once = tensor.rank() == 0 ? 1.0 : 0.0;
  std::vector<double> sums;
  for (std::size_t i = 0; i < preview->changes.size(); ++i) {
    sums.insert(sums.end(), {once * preview->changes[i].before, once * preview->changes[i].change,
                             once * static_cast<double>(preview->counts.places[i])});
  }
  at::Tensor total = at::tensor(sums, at::device(at::kCPU).dtype(at::kDouble));
  world.all_reduce(total);
  json writes = json::array();
  const double* numbers = total.const_data_ptr<double>();
  for_each_place(*preview,
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

}  // namespace tt::intervene

#include "tensor_tracer/vectors/contrast.h"

#include <ATen/ATen.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "tensor_tracer/vectors/separation.h"

// Shapes: K kinds, R rows, N held-out texts of both sides.

namespace tt::vectors {
namespace {

using nlohmann::json;
using Numbers = std::vector<double>;
using Sides = std::array<Numbers, kNumSides>;

constexpr std::int64_t kResamples = 400;

// The held-out texts 0, 2, … choose the best layer. The texts 1, 3, … give the scores.
enum Half : std::int64_t { kChoosing, kScored };

// The numbers of a side at a row, of texts first, first + 2, and so on. `projections`: [texts, R].
Numbers every_second(const at::Tensor& projections, std::int64_t first, std::int64_t row) {
  Numbers numbers;
  for (std::int64_t text = first; text < projections.size(0); text += 2)
    numbers.push_back(projections[text][row].item<double>());
  return numbers;
}

// Drops texts without tokens of the kind, which have NaN; of pairs, both texts.
void drop_unknown(Sides& sides, bool keeps_pairs) {
  if (!keeps_pairs) {
    for (Numbers& side : sides)
      std::erase_if(side, [](double number) { return std::isnan(number); });
    return;
  }
  Sides kept;
  for (std::size_t i = 0; i < sides[kPositive].size(); ++i) {
    if (std::isnan(sides[kPositive][i]) || std::isnan(sides[kNegative][i])) continue;
    for (const Side side : {kPositive, kNegative}) kept[side].push_back(sides[side][i]);
  }
  sides = std::move(kept);
}

// The projections on a row of the texts of one half.
Sides numbers_of(const HeldOutProjections& held_out, Kind kind, bool are_pairs, Half half,
                 std::int64_t row) {
  const at::Tensor all_NR = held_out.numbers.select(1, kind);
  const std::int64_t positive = held_out.positive;
  Sides numbers;
  numbers[kPositive] = every_second(all_NR.narrow(0, 0, positive), half, row);
  numbers[kNegative] =
      every_second(all_NR.narrow(0, positive, all_NR.size(0) - positive), half, row);
  drop_unknown(numbers, are_pairs);
  return numbers;
}

HeldOutScores scores_of(const HeldOutProjections& held_out, Kind kind, bool are_pairs) {
  HeldOutScores scores;
  for (std::int64_t row = 0; row < held_out.numbers.size(2); ++row) {
    const Sides numbers = numbers_of(held_out, kind, are_pairs, kScored, row);
    scores.area.push_back(area_under_curve(numbers[kPositive], numbers[kNegative]));
    for (const Side side : {kPositive, kNegative}) scores.texts[side] = std::ssize(numbers[side]);
    if (are_pairs)
      scores.pairs_above.push_back(share_above(numbers[kPositive], numbers[kNegative]));
  }
  return scores;
}

std::optional<std::int64_t> best_layer_of(const HeldOutProjections& held_out, Kind kind,
                                          bool are_pairs) {
  std::optional<std::int64_t> layer;
  std::pair<double, double> best = {-1, 0};  // area, effect size
  for (std::int64_t row = 1; row + 1 < held_out.numbers.size(2); ++row) {
    const Sides numbers = numbers_of(held_out, kind, are_pairs, kChoosing, row);
    const auto area = area_under_curve(numbers[kPositive], numbers[kNegative]);
    const double effect = effect_size(numbers[kPositive], numbers[kNegative]).value_or(0);
    if (!area || std::pair(*area, effect) <= best) continue;
    best = {*area, effect};
    layer = row;
  }
  return layer;
}

json list_of(const at::Tensor& numbers) {
  json list = json::array();
  for (std::int64_t i = 0; i < numbers.numel(); ++i) {
    const double number = numbers[i].item<double>();
    list.push_back(std::isfinite(number) ? json(number) : json());
  }
  return list;
}

json list_of(const std::vector<std::optional<double>>& numbers) {
  json list = json::array();
  for (const auto& number : numbers) list.push_back(number ? json(*number) : json());
  return list;
}

}  // namespace

void require_finite(const GroupSums& sums) {
  const at::Tensor differences_KRH = sums.differences(), texts_SK = sums.texts();
  for (std::int64_t kind = 0; kind < kNumKinds; ++kind) {
    const bool is_known = texts_SK.select(1, kind).gt(0).all().item<bool>();
    const at::Tensor finite_R = at::isfinite(differences_KRH[kind]).all(1);
    if (!is_known || finite_R.all().item<bool>()) continue;
    const auto row = finite_R.logical_not().to(at::kByte).argmax().item<std::int64_t>();
    throw std::runtime_error("the hidden states of row " + std::to_string(row) +
                             " are not finite: the model has weights that are not, or overflows");
  }
}

ExtractedVector extract_vector(const GroupSums& sums, const HeldOutProjections& held_out, Kind kind,
                               bool are_pairs, std::uint64_t seed) {
  ExtractedVector vector;
  const at::Tensor texts_S = sums.texts().select(1, kind);
  for (const Side side : {kPositive, kNegative})
    vector.texts[side] = static_cast<std::int64_t>(texts_S[side].item<double>());
  if (vector.texts[kPositive] == 0 || vector.texts[kNegative] == 0) return vector;
  vector.rows = sums.differences()[kind];
  vector.stability = bootstrap(sums, kind, are_pairs, kResamples, seed);
  if (held_out.positive == 0) return vector;
  vector.scores = scores_of(held_out, kind, are_pairs);
  vector.best_layer = best_layer_of(held_out, kind, are_pairs);
  return vector;
}

json evidence_of(const ExtractedVector& vector) {
  json by_row = {{"cosine", list_of(vector.stability.mean)},
                 {"cosine_5%", list_of(vector.stability.low)}};
  if (vector.scores) {
    by_row["auc"] = list_of(vector.scores->area);
    if (!vector.scores->pairs_above.empty())
      by_row["pairs_above"] = list_of(vector.scores->pairs_above);
  }
  return {{"texts_in_vector", vector.texts},
          {"best_layer", vector.best_layer ? json(*vector.best_layer) : json()},
          {"held_out_texts", vector.scores ? json(vector.scores->texts) : json()},
          {"by_row", std::move(by_row)}};
}

}  // namespace tt::vectors

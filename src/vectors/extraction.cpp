#include "tensor_tracer/vectors/extraction.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "tensor_tracer/vectors/separation.h"

// Shapes: K kinds, R rows, H hidden, N held-out texts of both sides.

namespace tt::vectors {
namespace {

using Numbers = std::vector<double>;

std::int64_t side_of(std::int64_t number) { return number % kNumSides; }
std::int64_t index_of(std::int64_t number) { return number / kNumSides; }

bool are_pairs(const Contrast& contrast) {
  return contrast[kPositive].size == contrast[kNegative].size;
}

// The numbers of a side at a row, of texts first, first + 2, and so on. `projections`: [texts, R].
Numbers every_second(const at::Tensor& projections, std::int64_t first, std::int64_t row) {
  Numbers numbers;
  for (std::int64_t text = first; text < projections.size(0); text += 2)
    numbers.push_back(projections[text][row].item<double>());
  return numbers;
}

// Drops texts without tokens of the kind, which have NaN; of pairs, both texts.
void drop_unknown(std::array<Numbers, kNumSides>& sides, bool keeps_pairs) {
  if (!keeps_pairs) {
    for (Numbers& side : sides)
      std::erase_if(side, [](double number) { return std::isnan(number); });
    return;
  }
  std::array<Numbers, kNumSides> kept;
  for (std::size_t i = 0; i < sides[kPositive].size(); ++i) {
    if (std::isnan(sides[kPositive][i]) || std::isnan(sides[kNegative][i])) continue;
    for (const Side side : {kPositive, kNegative}) kept[side].push_back(sides[side][i]);
  }
  sides = std::move(kept);
}

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

}  // namespace

// Texts first to end - 1 of each side, which are read in this order.
struct Extraction::Part {
  const Contrast& contrast;
  std::array<std::int64_t, kNumSides> first = {}, end = {};
};

Extraction::Extraction(const model::Gpt& model, const train::Groups& groups,
                       const ExtractionOptions& options, OnText on_text)
    : model_(model),
      groups_(groups),
      options_(options),
      on_text_(std::move(on_text)),
      reader_(model, options.includes_first_token, groups.coordinates.tensor == 0),
      spreader_(groups, options.batch_size) {}

// Texts of the side. A side alone would have no scores.
std::int64_t Extraction::held_out(const Contrast& contrast, std::int64_t side) const {
  std::array<std::int64_t, kNumSides> held = {};
  for (const Side one : {kPositive, kNegative}) {
    const auto size = static_cast<double>(contrast[one].size);
    held[one] = static_cast<std::int64_t>(options_.held_out * size);
    if (held[one] < kLeastHeldOut) return 0;
  }
  return held[static_cast<std::size_t>(side)];
}

// `next`: how many texts of the part were read.
std::optional<NumberedText> Extraction::pull(const Part& part, std::int64_t& next) const {
  std::int64_t index = next;
  std::int64_t side = kPositive;
  if (const std::int64_t count = part.end[kPositive] - part.first[kPositive]; index >= count) {
    index -= count;
    side = kNegative;
  }
  index += part.first[static_cast<std::size_t>(side)];
  if (index >= part.end[static_cast<std::size_t>(side)]) return std::nullopt;
  data::PromptedText text =
      next_text(*part.contrast[static_cast<std::size_t>(side)].texts, options_.most_tokens);
  ++next;
  if (on_text_) on_text_();
  return NumberedText{kNumSides * index + side, std::move(text)};
}

void Extraction::visit_part(
    const Part& part,
    const std::function<void(std::int64_t side, std::int64_t index, const StateMeans& means,
                             std::int64_t text)>& take) const {
  std::int64_t next = 0;
  spreader_.run([&] { return pull(part, next); },
                [&](const std::vector<NumberedText>& texts) {
                  if (texts.empty()) return;
                  std::vector<const data::PromptedText*> own;
                  for (const NumberedText& one : texts) own.push_back(&one.text);
                  const StateMeans means = reader_.read(own);
                  if (groups_.coordinates.tensor != 0) return;
                  for (std::size_t i = 0; i < texts.size(); ++i)
                    take(side_of(texts[i].number), index_of(texts[i].number), means,
                         static_cast<std::int64_t>(i));
                });
}

GroupSums Extraction::sum_texts(const Contrast& contrast) const {
  const points::PlaceTable& places = *model_.places();
  GroupSums sums(places.num_layers() + 1, places.rows()[places.layer_output()].features);
  Part part{contrast};
  for (const Side side : {kPositive, kNegative})
    part.end[side] = contrast[side].size - held_out(contrast, side);
  visit_part(part, [&](std::int64_t side, std::int64_t index, const StateMeans& means,
                       std::int64_t text) {
    const std::int64_t size = part.end[static_cast<std::size_t>(side)];
    sums.add(static_cast<Side>(side), GroupSums::group_of(index, size, options_.seed), means, text);
  });
  if (groups_.coordinates.tensor == 0) {
    groups_.data.all_reduce(sums.states());
    groups_.data.all_reduce(sums.counts());
  }
  return sums;
}

// float64 [N, K, R], the positive texts first: projections on the unit vectors of `directions`, on
// rank 0. NaN: the text has no token of the kind.
at::Tensor Extraction::project_held_out(const Contrast& contrast,
                                        const at::Tensor& directions_KRH) const {
  const at::Tensor units_KRH =
      directions_KRH / at::linalg_vector_norm(directions_KRH, 2, -1, /*keepdim=*/true);
  Part part{contrast};
  for (const Side side : {kPositive, kNegative}) {
    part.end[side] = contrast[side].size;
    part.first[side] = contrast[side].size - held_out(contrast, side);
  }
  const std::int64_t positive = held_out(contrast, kPositive);
  at::Tensor all_NKR =
      at::zeros({positive + held_out(contrast, kNegative), kNumKinds, directions_KRH.size(1)},
                directions_KRH.options());
  visit_part(
      part, [&](std::int64_t side, std::int64_t index, const StateMeans& means, std::int64_t text) {
        const at::Tensor projections_KR = (means.states[text] * units_KRH).sum(-1);
        const at::Tensor is_absent_K1 = means.counts[text].eq(0).unsqueeze(1);
        index += (side == kPositive ? 0 : positive) - part.first[static_cast<std::size_t>(side)];
        all_NKR[index].copy_(
            projections_KR.masked_fill(is_absent_K1, std::numeric_limits<double>::quiet_NaN()));
      });
  if (groups_.coordinates.tensor == 0) groups_.data.all_reduce(all_NKR);
  return all_NKR;
}

void Extraction::add_scores(const Contrast& contrast, const at::Tensor& projections_NR,
                            ExtractedVector& vector) const {
  const std::int64_t positive = held_out(contrast, kPositive);
  if (positive == 0) return;
  const std::array<at::Tensor, kNumSides> sides = {
      projections_NR.narrow(0, 0, positive),
      projections_NR.narrow(0, positive, projections_NR.size(0) - positive)};
  HeldOutScores scores;
  std::pair<double, double> best = {-1, 0};  // area, effect size
  for (std::int64_t row = 0; row < projections_NR.size(1); ++row) {
    for (const std::int64_t half : {0, 1}) {
      std::array<Numbers, kNumSides> numbers;
      for (const Side side : {kPositive, kNegative})
        numbers[side] = every_second(sides[side], half, row);
      drop_unknown(numbers, are_pairs(contrast));
      const auto area = area_under_curve(numbers[kPositive], numbers[kNegative]);
      if (half == 1) {
        scores.area.push_back(area);
        for (const Side side : {kPositive, kNegative})
          scores.texts[side] = std::ssize(numbers[side]);
        if (are_pairs(contrast))
          scores.pairs_above.push_back(share_above(numbers[kPositive], numbers[kNegative]));
        continue;
      }
      const double effect = effect_size(numbers[kPositive], numbers[kNegative]).value_or(0);
      const bool is_layer = row > 0 && row + 1 < projections_NR.size(1);
      if (!area || !is_layer || std::pair(*area, effect) <= best) continue;
      best = {*area, effect};
      vector.best_layer = row;
    }
  }
  vector.scores = std::move(scores);
}

ExtractedVector Extraction::describe(const Contrast& contrast, const GroupSums& sums,
                                     const at::Tensor& projections_NKR, Kind kind) const {
  ExtractedVector vector;
  const at::Tensor texts_S = sums.texts().select(1, kind);
  for (const Side side : {kPositive, kNegative})
    vector.texts[side] = static_cast<std::int64_t>(texts_S[side].item<double>());
  if (vector.texts[kPositive] == 0 || vector.texts[kNegative] == 0) return vector;
  vector.rows = sums.differences()[kind];
  vector.stability = bootstrap(sums, kind, are_pairs(contrast), kResamples, options_.seed);
  add_scores(contrast, projections_NKR.select(1, kind), vector);
  return vector;
}

std::vector<ExtractedVector> Extraction::run(const Contrast& contrast) const {
  const GroupSums sums = sum_texts(contrast);
  if (groups_.coordinates.tensor == 0) require_finite(sums);
  const at::Tensor projections_NKR = project_held_out(contrast, sums.differences());
  std::vector<ExtractedVector> vectors;
  if (groups_.world.rank() != 0) return vectors;
  for (const Kind kind : {kResponse, kPrompt, kLastPrompt})
    vectors.push_back(describe(contrast, sums, projections_NKR, kind));
  return vectors;
}

}  // namespace tt::vectors

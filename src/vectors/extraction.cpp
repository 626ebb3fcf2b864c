#include "tensor_tracer/vectors/extraction.h"

#include <ATen/ATen.h>

#include <limits>
#include <utility>

// Shapes: K kinds, R rows, H hidden, N held-out texts of both sides.

namespace tt::vectors {
namespace {

std::int64_t side_of(std::int64_t number) { return number % kNumSides; }
std::int64_t index_of(std::int64_t number) { return number / kNumSides; }

bool are_pairs(const Contrast& contrast) {
  return contrast[kPositive].size == contrast[kNegative].size;
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
  visit_part(
      part, [&](std::int64_t side, std::int64_t index, const StateMeans& means, std::int64_t text) {
        const std::int64_t size = part.end[static_cast<std::size_t>(side)];
        sums.add(static_cast<Side>(side), GroupSums::group_of(index, size, options_.seed),
                 means.states[text], means.counts[text].gt(0));
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

std::vector<ExtractedVector> Extraction::run(const Contrast& contrast) const {
  const GroupSums sums = sum_texts(contrast);
  if (groups_.coordinates.tensor == 0) require_finite(sums);
  const HeldOutProjections held_out_texts{project_held_out(contrast, sums.differences()),
                                          held_out(contrast, kPositive)};
  std::vector<ExtractedVector> vectors;
  if (groups_.world.rank() != 0) return vectors;
  for (const Kind kind : {kResponse, kPrompt, kLastPrompt})
    vectors.push_back(
        extract_vector(sums, held_out_texts, kind, are_pairs(contrast), options_.seed));
  return vectors;
}

}  // namespace tt::vectors

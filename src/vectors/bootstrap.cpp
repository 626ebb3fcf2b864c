#include "tensor_tracer/vectors/bootstrap.h"

#include <ATen/ATen.h>

#include <limits>
#include <random>
#include <tuple>
#include <vector>

// Shapes: S sides, G groups, R rows, H hidden, N resamples.

namespace tt::vectors {
namespace {

constexpr double kLowShare = 0.05;

// The groups of a side that hold texts.
std::vector<std::int64_t> groups_with_texts(const at::Tensor& counts_G) {
  std::vector<std::int64_t> groups;
  for (std::int64_t group = 0; group < counts_G.size(0); ++group)
    if (counts_G[group].item<double>() > 0) groups.push_back(group);
  return groups;
}

// float64 [N, G]: how often each resample draws a group.
at::Tensor draw_groups(const std::vector<std::int64_t>& groups, std::int64_t resamples,
                       std::mt19937_64& random) {
  at::Tensor times_NG =
      at::zeros({resamples, GroupSums::kGroups}, at::device(at::kCPU).dtype(at::kDouble));
  auto times = times_NG.accessor<double, 2>();
  for (std::int64_t n = 0; n < resamples; ++n)
    for (std::size_t draw = 0; draw < groups.size(); ++draw)
      ++times[n][groups[random() % groups.size()]];
  return times_NG;
}

// float64 [N, G] for each side: the share of a text of the group in the mean of each resample.
// Nothing: a side has fewer than two groups.
std::vector<at::Tensor> draw_weights(const at::Tensor& counts_SG, bool is_paired,
                                     std::int64_t resamples, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<at::Tensor> drawn;
  for (const Side side : {kPositive, kNegative}) {
    const std::vector<std::int64_t> groups = groups_with_texts(counts_SG[side]);
    if (groups.size() < 2) return {};
    drawn.push_back(side == kNegative && is_paired ? drawn.front()
                                                   : draw_groups(groups, resamples, random));
  }
  for (const Side side : {kPositive, kNegative}) {
    at::Tensor& times_NG = drawn[static_cast<std::size_t>(side)];
    times_NG = times_NG / at::mv(times_NG, counts_SG[side]).unsqueeze(1);
  }
  return drawn;
}

// float64 [N]: of each row with `whole`.
at::Tensor cosines_with(const at::Tensor& whole_H, const at::Tensor& drawn_NH) {
  return at::mv(drawn_NH, whole_H) /
         (at::linalg_vector_norm(drawn_NH, 2, -1) * at::linalg_vector_norm(whole_H));
}

}  // namespace

Stability bootstrap(const GroupSums& sums, Kind kind, bool is_paired, std::int64_t resamples,
                    std::uint64_t seed) {
  const at::Tensor whole_RH = sums.differences()[kind];
  const at::Tensor unknown_R =
      at::full({whole_RH.size(0)}, std::numeric_limits<double>::quiet_NaN(), whole_RH.options());
  const Stability stability{unknown_R, unknown_R.clone()};
  const auto weights = draw_weights(sums.counts().select(2, kind), is_paired, resamples, seed);
  if (weights.empty()) return stability;
  const auto low = static_cast<std::int64_t>(kLowShare * static_cast<double>(resamples));
  for (std::int64_t row = 0; row < whole_RH.size(0); ++row) {
    const auto drawn_NH = [&](Side side) {
      const at::Tensor states_GH = sums.states()[side].select(1, kind).select(1, row);
      return at::mm(weights[static_cast<std::size_t>(side)], states_GH);
    };
    const at::Tensor cosines_N =
        cosines_with(whole_RH[row], drawn_NH(kPositive) - drawn_NH(kNegative));
    stability.mean[row].copy_(cosines_N.mean());
    stability.low[row].copy_(std::get<0>(cosines_N.sort())[low]);
  }
  return stability;
}

}  // namespace tt::vectors

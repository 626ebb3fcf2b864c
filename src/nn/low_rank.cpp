#include "tensor_tracer/nn/low_rank.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tensor_tracer/nn/linear.h"

// Shapes: I in features, O out features of the target, R rank.

namespace tt::nn {
namespace {

using mesh::Placement;

bool is_row_parallel(const AdapterSite& site) { return site.weight.dim == 1; }

std::int64_t rows_of(const AdapterSite& site, std::size_t first, std::size_t count) {
  if (is_row_parallel(site)) return count == 0 ? 0 : site.out_features;
  std::int64_t rows = 0;
  for (std::size_t i = first; i < first + count; ++i) rows += site.weight.segments[i].size;
  return rows;
}

Placement placement_of_b(const AdapterSite& site, const AdapterTarget& target) {
  if (is_row_parallel(site)) return Placement::replicate();
  const auto begin = site.weight.segments.begin() + static_cast<std::ptrdiff_t>(target.first);
  return Placement::shard(0, {begin, begin + static_cast<std::ptrdiff_t>(target.segments)});
}

// Columns of y on this rank in the segments before `segment`.
std::int64_t local_columns(const AdapterSite& site, std::size_t segment, int rank, int ranks) {
  if (is_row_parallel(site)) return segment == 0 ? 0 : site.out_features;
  std::int64_t columns = 0;
  const auto intervals = mesh::intervals_of_rank(site.weight, rank, ranks);
  for (std::size_t i = 0; i < segment; ++i) columns += intervals[i].end - intervals[i].begin;
  return columns;
}

}  // namespace

LowRank::LowRank(const BuildContext& context, const config::ModelConfig& config,
                 const AdapterSite& site, const AdapterTarget& target)
    : group_(context.tensor),
      target_(target.name),
      layer_(site.layer),
      scale_(config.lora_alpha / static_cast<double>(config.lora_rank)),
      sums_input_(is_row_parallel(site)),
      first_row_(rows_of(site, 0, target.first)),
      // The variance of PEFT's uniform numbers.
      a_(make_parameter(context, target.module + ".lora_A.weight",
                        {config.lora_rank, site.in_features},
                        sums_input_ ? site.weight : Placement::replicate(), Init::kNormal,
                        1.0 / std::sqrt(3.0 * static_cast<double>(site.in_features)))),
      b_(make_parameter(context, target.module + ".lora_B.weight",
                        {rows_of(site, target.first, target.segments), config.lora_rank},
                        placement_of_b(site, target), Init::kZeros)) {
  const int rank = context.described_ranks > 0 ? 0 : context.tensor.rank();
  begin_ = local_columns(site, target.first, rank, context.tensor_ranks());
  size_ =
      local_columns(site, target.first + target.segments, rank, context.tensor_ranks()) - begin_;
}

at::Tensor LowRank::forward(const at::Tensor& x) const {
  const at::ScalarType dtype = x.scalar_type();
  const at::Tensor a_RI = a_.local.to(dtype), b_OR = b_.local.to(dtype) * scale_;
  if (sums_input_) return at::linear(row_parallel_matmul(x, a_RI, group_), b_OR);
  return column_parallel_matmul(at::linear(x, a_RI), b_OR, group_);
}

std::vector<LowRank> make_adapters(const BuildContext& context, const config::ModelConfig& config,
                                   const AdapterSite& site,
                                   const std::vector<AdapterTarget>& targets) {
  std::vector<LowRank> adapters;
  if (config.lora_rank == 0) return adapters;
  for (const AdapterTarget& target : targets)
    if (std::ranges::find(config.lora_target_modules, target.name) !=
        config.lora_target_modules.end())
      adapters.emplace_back(context, config, site, target);
  return adapters;
}

}  // namespace tt::nn

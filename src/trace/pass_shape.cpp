#include "src/trace/pass_shape.h"

#include <c10/util/accumulate.h>

#include <algorithm>

#include "src/trace/captured.h"

namespace tt::trace {
namespace {

const points::Place& point_of(const PlanEntry& entry, const PlanContext& context) {
  return context.places->rows()[entry.point];
}

// The sizes of rank 0's shard of the trace point.
std::vector<std::int64_t> local_sizes(const PlanEntry& entry, const points::Place& point,
                                      const PassSize& size, int ranks) {
  const mesh::Placement& placement = entry.gradient ? *point.gradient : point.placement;
  const bool has_heads = point.dims.size() == 4;
  std::vector<std::int64_t> sizes =
      has_heads ? std::vector{size.rows, std::int64_t{1}, size.tokens, size.tokens}
                : std::vector{size.rows, size.tokens, point.features};
  if (placement.is_sharded())
    sizes[static_cast<std::size_t>(placement.dim)] =
        local_size(placement, 0, ranks / chunks_of(point.contexts));
  return sizes;
}

}  // namespace

std::vector<PassSize> pass_sizes(const PlanEntry& entry, const PlanContext& context) {
  const points::Place& point = point_of(entry, context);
  if (point.is_of_step()) return {{1, static_cast<std::int64_t>(point.parameters.size())}};
  const std::int64_t batch = context.micro_batch_size;
  if (entry.prompt_set == 0) return {{batch, context.seq_length}};
  const points::PromptShape& set = entry.prompts;
  const std::int64_t tokens = entry.mean_over == MeanOver::kNothing ? set.tokens : 1;
  std::vector<PassSize> sizes;
  if (set.rows >= batch) sizes.push_back({batch, tokens, set.rows / batch});
  if (set.rows % batch > 0) sizes.push_back({set.rows % batch, tokens});
  return sizes;
}

std::int64_t tokens_in(const PlanEntry& entry, const PassSize& size) {
  return std::max<std::int64_t>(token_window(entry, size.tokens).size(), 0);
}

std::int64_t rows_in(const PlanEntry& entry, const PassSize& size) {
  return std::max<std::int64_t>(row_window(entry, size.rows).size(), 0);
}

std::int64_t lines_in(const PlanEntry& entry, const PlanContext& context, const PassSize& size) {
  const points::Place& point = point_of(entry, context);
  const std::int64_t heads = point.dims.size() == 4 ? point.placement.full_size() : 1;
  return rows_in(entry, size) * tokens_in(entry, size) * heads;
}

std::optional<PassShape> shape_in(const PlanEntry& entry, const PlanContext& context,
                                  const PassSize& size) {
  const points::Place& point = point_of(entry, context);
  if (point.holds_integers()) {
    const std::int64_t rows = rows_in(entry, size), tokens = tokens_in(entry, size);
    if (rows == 0 || tokens == 0) return std::nullopt;
    const bool is_empty = entry.compressor->code == protocol::RecordCompressor::kEmpty;
    return PassShape{nullptr, {2, rows, is_empty ? 0 : tokens}};
  }
  const auto sizes = local_sizes(entry, point, size, context.tensor_ranks);
  const auto shape = logical_shape(entry, point, sizes, context.tensor_ranks);
  if (!shape) return std::nullopt;
  auto packing = entry.compressor->packing(*shape, point.dtype == "float64");
  const KeptForm& kept = entry.compressor->kept;
  std::vector<std::int64_t> record = kept.units > 0 ? kept.shape() : packing->shape();
  return PassShape{std::move(packing), std::move(record)};
}

int layers_taken(const PlanEntry& entry, const PlanContext& context) {
  const points::Place& point = point_of(entry, context);
  const auto first = entry.takes_layer.begin();
  return static_cast<int>(
      std::count(first + point.first_layer, first + point.last_layer + 1, true));
}

std::size_t bytes_of_record(const std::vector<std::int64_t>& shape, protocol::Dtype dtype) {
  const std::int64_t count = c10::multiply_integers(shape);
  const std::int64_t columns = shape.empty() ? 1 : shape.back();
  const std::int64_t lines = columns > 0 ? count / columns : 0;
  std::size_t payload = static_cast<std::size_t>(count) * protocol::dtype_bytes(dtype);
  if (dtype == protocol::Dtype::kU8)
    payload += static_cast<std::size_t>(lines) * protocol::kU8LineBytes;
  return protocol::record_bytes(payload);
}

}  // namespace tt::trace

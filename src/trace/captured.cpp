#include "src/trace/captured.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace tt::trace {
namespace {

bool shards_dim_1(const mesh::Placement& placement) {
  return placement.is_sharded() && placement.dim == 1;
}

// Of a pass with `tokens` tokens. The pass of a prompt may be filled up at its end.
std::int64_t own_tokens(const PlanEntry& entry, std::int64_t tokens) {
  return entry.prompt_set > 0 ? std::min(tokens, entry.prompts.tokens) : tokens;
}

// For [batch, heads, queries, keys]: the lines are heads × queries.
void set_lines_of_heads(LogicalShape& shape, std::int64_t local_heads, std::int64_t queries) {
  const std::int64_t heads =
      shards_dim_1(shape.placement) ? shape.placement.full_size() : local_heads;
  shape.line_dims = {heads, queries};
  shape.lines = shape.last_line = heads * queries;
  if (shards_dim_1(shape.placement))
    for (mesh::Segment& segment : shape.placement.segments) segment.size *= queries;
}

// Of the logical tensor.
std::int64_t whole_tokens(const LogicalShape& shape, at::IntArrayRef local_sizes) {
  if (local_sizes.size() == 4) return local_sizes[2];
  if (shape.contexts.is_sharded()) return shape.contexts.full_size();
  return shards_dim_1(shape.placement) ? shape.placement.full_size() : local_sizes[1];
}

}  // namespace

Window row_window(const PlanEntry& entry, std::int64_t batch) {
  return {entry.first_row, std::min(entry.end_row.value_or(batch), batch)};
}

Window token_window(const PlanEntry& entry, std::int64_t tokens) {
  const std::int64_t own = own_tokens(entry, tokens);
  if (!entry.tokens) return {0, own};
  return {entry.tokens->first, std::min(entry.tokens->second, own)};
}

std::optional<LogicalShape> logical_shape(const PlanEntry& entry, const points::Place& point,
                                          at::IntArrayRef local_sizes, int ranks) {
  const Window rows = row_window(entry, local_sizes[0]);
  LogicalShape shape;
  shape.rows = rows.size();
  shape.placement = entry.gradient ? *point.gradient : point.placement;
  const bool shards_features = shape.placement.is_sharded() && !shards_dim_1(shape.placement);
  const bool has_heads = local_sizes.size() == 4;
  const std::int64_t columns =
      has_heads ? own_tokens(entry, local_sizes.back()) : local_sizes.back();
  shape.features = shards_features ? point.features : columns;
  shape.ranks = ranks;
  shape.contexts = point.contexts;
  const std::int64_t tokens = whole_tokens(shape, local_sizes);
  const Window window = token_window(entry, tokens);
  if (rows.size() <= 0 || window.size() <= 0) return std::nullopt;
  if (has_heads) {
    set_lines_of_heads(shape, local_sizes[1], window.size());
    return shape;
  }
  shape.lines = tokens;
  shape.first_line = window.first;
  shape.last_line = window.end;
  shape.line_dims = {window.size()};
  return shape;
}

at::Tensor local_numbers(const PlanEntry& entry, const LogicalShape& shape,
                         const at::Tensor& local) {
  at::Tensor numbers = local.detach().narrow(0, entry.first_row, shape.rows);
  if (numbers.dim() == 4) {
    const Window window = token_window(entry, numbers.size(2));
    numbers = numbers.narrow(2, window.first, window.size()).narrow(3, 0, shape.features);
    numbers = numbers.contiguous().flatten(1, 2);
  }
  const at::ScalarType type = numbers.scalar_type();
  const bool is_read_as_it_is =
      type == at::kDouble || (!numbers.is_cpu() && (type == at::kHalf || type == at::kBFloat16));
  if (!is_read_as_it_is) numbers = numbers.to(at::kFloat);
  return numbers.stride(2) == 1 ? numbers : numbers.contiguous();
}

std::vector<std::int64_t> captured_targets(const PlanEntry& entry, const at::Tensor& targets) {
  const Window rows = row_window(entry, targets.size(0));
  const Window tokens = token_window(entry, targets.size(1));
  const at::Tensor part = targets.narrow(0, rows.first, rows.size())
                              .narrow(1, tokens.first, tokens.size())
                              .contiguous();
  const auto* first = part.const_data_ptr<std::int64_t>();
  return {first, first + part.numel()};
}

at::Tensor local_integers(const PlanEntry& entry, const at::Tensor& local) {
  const Window rows = row_window(entry, local.size(1));
  const Window tokens = token_window(entry, local.size(2));
  return local.narrow(1, rows.first, std::max<std::int64_t>(rows.size(), 0))
      .narrow(2, tokens.first, std::max<std::int64_t>(tokens.size(), 0))
      .to(entry.dtype == protocol::Dtype::kI64 ? at::kLong : at::kInt)
      .contiguous();
}

void copy_integers(const at::Tensor& integers, std::byte* bytes) {
  at::from_blob(bytes, integers.sizes(), integers.options()).copy_(integers);
}

}  // namespace tt::trace

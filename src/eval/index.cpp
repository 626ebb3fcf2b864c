#include "src/eval/index.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace tt::eval {
namespace {

Value or_none(const std::optional<std::int64_t>& bound) {
  return bound ? Value{*bound} : Value{None{}};
}

bool is_whole(const Slice& slice) {
  return slice.start.value_or(0) == 0 && !slice.stop && slice.step.value_or(1) == 1;
}

// The number of indexed dimensions. Nullopt and a problem if there is a second ... or a second
// list.
std::optional<std::int64_t> count_indexed(const std::vector<IndexItem>& items, CallChecker& calls) {
  std::int64_t indexed = 0;
  int dots = 0;
  int lists = 0;
  for (const IndexItem& item : items) {
    if (item.value.is<Ellipsis>()) ++dots;
    if (item.is_list) ++lists;
    if (!item.value.is<Ellipsis>() && !item.value.is<None>()) ++indexed;
    if (dots > 1) calls.fail(item.span, "an index has one ... at most");
    if (lists > 1)
      calls.fail(item.span, "an index has one list at most", "index one after the other");
  }
  return calls.problem() ? std::nullopt : std::optional(indexed);
}

Value index_by_list(const Value& tensor, const Sequence& list, std::int64_t dim, expr::Span span,
                    CallChecker& calls) {
  const std::int64_t size = tensor.get<TensorValue>()->meta.size(dim);
  std::vector<std::int64_t> positions;
  for (const Value& item : list.items) {
    const auto* index = item.get<std::int64_t>();
    if (index == nullptr) return calls.fail(span, "a list in an index has integers only");
    if (*index < -size || *index >= size) {
      return calls.fail(span, "index " + std::to_string(*index) +
                                  " is out of bounds for dimension " + std::to_string(dim) +
                                  " with size " + std::to_string(size));
    }
    positions.push_back(*index < 0 ? *index + size : *index);
  }
  const auto options = at::device(at::kCPU).dtype(at::kLong);
  return calls.apply("index_select", span,
                     {tensor, {dim}, {calls.recorder().constant(at::tensor(positions, options))}});
}

// `dim`: the dimension of this item; the function moves it to the dimension of the next item. The
// item ... skips `skipped` dimensions.
Value index_one(Value tensor, const IndexItem& item, std::int64_t& dim, std::int64_t skipped,
                CallChecker& calls) {
  const Value& index = item.value;
  const expr::Span span = item.span;
  if (index.is<Ellipsis>()) {
    dim += skipped;
    return tensor;
  }
  if (index.is<None>()) return calls.apply("unsqueeze", span, {std::move(tensor), {dim++}});
  if (index.is<std::int64_t>())
    return calls.apply("select", span, {std::move(tensor), {dim}, index});
  if (const auto* slice = index.get<Slice>()) {
    const std::int64_t sliced = dim++;
    if (is_whole(*slice)) return tensor;
    return calls.apply("slice", span,
                       {std::move(tensor),
                        {sliced},
                        or_none(slice->start),
                        or_none(slice->stop),
                        {slice->step.value_or(1)}});
  }
  if (item.is_list) return index_by_list(tensor, *index.get<Sequence>(), dim++, span, calls);
  if (index.is<TensorValue>()) {
    return calls.fail(
        span, "an index by a tensor is not admitted: the shape may depend on the data",
        "for a mask write where(mask, data, 0), for positions gather(data, dim, index)");
  }
  return calls.fail(span, describe(index) + " is no index",
                    "there are integers, slices, ... and None");
}

}  // namespace

Value index_sequence(const Sequence& sequence, const Value& subscript, expr::Span span,
                     CallChecker& calls) {
  const auto size = static_cast<std::int64_t>(sequence.items.size());
  if (const auto* index = subscript.get<std::int64_t>()) {
    const std::int64_t place = *index < 0 ? *index + size : *index;
    if (place >= 0 && place < size) return sequence.items[static_cast<std::size_t>(place)];
    return calls.fail(span,
                      "there is no item " + std::to_string(*index) + " in " + std::to_string(size));
  }
  const auto* slice = subscript.get<Slice>();
  if (slice == nullptr) return calls.fail(span, "the index of a tuple is an integer or a slice");
  const auto place = [size](std::int64_t bound) {
    return std::clamp<std::int64_t>(bound < 0 ? bound + size : bound, 0, size);
  };
  Sequence part;
  const std::int64_t stop = place(slice->stop.value_or(size));
  const std::int64_t step = std::min(slice->step.value_or(1), size + 1);
  for (std::int64_t i = place(slice->start.value_or(0)); i < stop; i += step)
    part.items.push_back(sequence.items[static_cast<std::size_t>(i)]);
  return {std::move(part)};
}

Value index_tensor(Value tensor, const std::vector<IndexItem>& items, expr::Span span,
                   CallChecker& calls) {
  const auto indexed = count_indexed(items, calls);
  if (!indexed) return {};
  const std::int64_t rank = tensor.get<TensorValue>()->meta.dim();
  if (*indexed > rank) return calls.fail(span, "too many indices for " + describe(tensor));
  std::int64_t dim = 0;
  for (const IndexItem& item : items) {
    tensor = index_one(std::move(tensor), item, dim, rank - *indexed, calls);
    if (calls.problem()) return {};
  }
  return tensor;
}

}  // namespace tt::eval

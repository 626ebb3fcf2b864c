#include <ATen/ATen.h>

#include <algorithm>

#include "src/eval/checker.h"

namespace tt::eval {
namespace {

using expr::Kind;

Value or_none(const std::optional<std::int64_t>& bound) {
  return bound ? Value{*bound} : Value{None{}};
}

bool is_whole(const Slice& slice) {
  return slice.start.value_or(0) == 0 && !slice.stop && slice.step.value_or(1) == 1;
}

}  // namespace

Value Checker::evaluate_index(const Node& node) {
  const Node& object_node = ast_.node(node.children[0]);
  if (object_node.kind == Kind::kAttribute && object_node.text == "shape") {
    const Value tensor = evaluate(object_node.children[0]);
    if (!problem_ && tensor.is<TensorValue>()) return index_shape(node, tensor);
  }
  const Value object = evaluate(node.children[0]);
  if (problem_) return {};
  if (object.is<TensorValue>()) return index_tensor(node, object);
  if (const auto* sequence = object.get<Sequence>()) {
    return index_sequence(node, *sequence, evaluate(node.children[1]));
  }
  return fail(object_node.span, describe(object) + " has no index");
}

// data.shape[-1] looks at one dimension only, which matters to reach.
Value Checker::index_shape(const Node& node, const Value& tensor) {
  const Value subscript = evaluate(node.children[1]);
  if (problem_) return {};
  if (const auto* dim = subscript.get<std::int64_t>()) {
    return size_of(*tensor.get<TensorValue>(), *dim, ast_.node(node.children[1]).span);
  }
  const Value shape = shape_of(*tensor.get<TensorValue>());
  return index_sequence(node, *shape.get<Sequence>(), subscript);
}

Value Checker::index_sequence(const Node& node, const Sequence& sequence, const Value& subscript) {
  if (problem_) return {};
  const auto size = static_cast<std::int64_t>(sequence.items.size());
  if (const auto* index = subscript.get<std::int64_t>()) {
    const std::int64_t place = *index < 0 ? *index + size : *index;
    if (place >= 0 && place < size) return sequence.items[static_cast<std::size_t>(place)];
    return fail(ast_.node(node.children[1]).span,
                "there is no item " + std::to_string(*index) + " in " + std::to_string(size));
  }
  const auto* slice = subscript.get<Slice>();
  if (slice == nullptr) {
    return fail(ast_.node(node.children[1]).span, "the index of a tuple is an integer or a slice");
  }
  const auto place = [size](std::int64_t bound) {
    return std::clamp<std::int64_t>(bound < 0 ? bound + size : bound, 0, size);
  };
  Sequence part;
  const std::int64_t stop = place(slice->stop.value_or(size));
  const std::int64_t step = std::min(slice->step.value_or(1), size + 1);
  for (std::int64_t i = place(slice->start.value_or(0)); i < stop; i += step) {
    part.items.push_back(sequence.items[static_cast<std::size_t>(i)]);
  }
  return {std::move(part)};
}

// How many dimensions the items index; nothing, and a problem, if they are more than they may be.
std::optional<std::int64_t> Checker::count_indexed(const std::vector<NodeId>& items) {
  std::int64_t indexed = 0;
  int dots = 0;
  int lists = 0;
  for (const NodeId item : items) {
    const Node& node = ast_.node(item);
    if (node.kind == Kind::kEllipsis) ++dots;
    if (node.kind == Kind::kList) ++lists;
    if (node.kind != Kind::kEllipsis && node.kind != Kind::kNone) ++indexed;
    if (dots > 1) fail(node.span, "an index has one ... at most");
    if (lists > 1) fail(node.span, "an index has one list at most", "index one after the other");
  }
  return problem_ ? std::nullopt : std::optional(indexed);
}

Value Checker::index_tensor(const Node& node, Value tensor) {
  const Node& subscript = ast_.node(node.children[1]);
  const std::vector<NodeId> items =
      subscript.kind == Kind::kTuple ? subscript.children : std::vector<NodeId>{node.children[1]};
  const auto indexed = count_indexed(items);
  if (!indexed) return {};
  const std::int64_t rank = tensor.get<TensorValue>()->meta.dim();
  if (*indexed > rank) {
    return fail(subscript.span, "too many indices for " + describe(tensor));
  }
  std::int64_t dim = 0;
  for (const NodeId item : items) {
    tensor = index_one(std::move(tensor), item, dim, rank - *indexed);
    if (problem_) return {};
  }
  return tensor;
}

// `dim` is the dimension that the item is about, and afterwards that of the next one; ... passes
// over `skipped` of them.
Value Checker::index_one(Value tensor, NodeId item, std::int64_t& dim, std::int64_t skipped) {
  const Span span = ast_.node(item).span;
  const Value index = evaluate(item);
  if (problem_) return {};
  if (index.is<Ellipsis>()) {
    dim += skipped;
    return tensor;
  }
  if (index.is<None>()) return apply("unsqueeze", span, {std::move(tensor), {dim++}});
  if (index.is<std::int64_t>()) return apply("select", span, {std::move(tensor), {dim}, index});
  if (const auto* slice = index.get<Slice>()) {
    const std::int64_t sliced = dim++;
    if (is_whole(*slice)) return tensor;
    return apply("slice", span,
                 {std::move(tensor),
                  {sliced},
                  or_none(slice->start),
                  or_none(slice->stop),
                  {slice->step.value_or(1)}});
  }
  if (index.is<Sequence>() && ast_.node(item).kind == Kind::kList) {
    return index_by_list(tensor, *index.get<Sequence>(), dim++, span);
  }
  if (index.is<TensorValue>()) {
    return fail(span, "an index by a tensor is not admitted: the shape may depend on the data",
                "for a mask write where(mask, data, 0), for positions gather(data, dim, index)");
  }
  return fail(span, describe(index) + " is no index", "there are integers, slices, ... and None");
}

Value Checker::index_by_list(const Value& tensor, const Sequence& list, std::int64_t dim,
                             Span span) {
  const std::int64_t size = tensor.get<TensorValue>()->meta.size(dim);
  std::vector<std::int64_t> places;
  for (const Value& item : list.items) {
    const auto* index = item.get<std::int64_t>();
    if (index == nullptr) return fail(span, "a list in an index has integers only");
    if (*index < -size || *index >= size) {
      return fail(span, "index " + std::to_string(*index) + " is out of bounds for dimension " +
                            std::to_string(dim) + " with size " + std::to_string(size));
    }
    places.push_back(*index < 0 ? *index + size : *index);
  }
  return apply("index_select", span,
               {tensor, {dim}, {recorder_.constant(at::tensor(places, at::kLong))}});
}

}  // namespace tt::eval

#include "src/eval/probe.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>

namespace tt::eval {
namespace {

using Shape = std::vector<std::int64_t>;

at::Tensor zeros(const Shape& shape, at::ScalarType dtype) {
  return at::zeros({}, at::device(at::kCPU).dtype(dtype)).expand(shape);
}

// True for the dimensions that the operator acts along; nullopt if one of `dims` does not exist.
std::optional<std::vector<bool>> mark(const std::vector<std::int64_t>& dims, std::int64_t rank) {
  std::vector<bool> marked(static_cast<std::size_t>(rank), false);
  for (const std::int64_t dim : dims) {
    const std::int64_t place = dim < 0 ? dim + rank : dim;
    if (place < 0 || place >= rank) return std::nullopt;
    marked[static_cast<std::size_t>(place)] = true;
  }
  return marked;
}

Shape shrink(at::IntArrayRef shape, const std::vector<bool>& marked) {
  Shape small(shape.begin(), shape.end());
  for (std::size_t i = 0; i < small.size(); ++i)
    if (!marked[i] && small[i] > 0) small[i] = 1;
  return small;
}

// Restores the sizes of the dimensions that were set to 1. The result may lack the dimensions that
// the operator acts along.
Shape grow(at::IntArrayRef result, at::IntArrayRef shape, const std::vector<bool>& marked) {
  const bool is_whole = result.size() == shape.size();
  Shape grown;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!marked[i]) grown.push_back(shape[i]);
    if (marked[i] && is_whole) grown.push_back(result[i]);
  }
  return grown;
}

}  // namespace

at::Tensor meta_like(at::IntArrayRef shape, at::ScalarType dtype) {
  return at::empty(shape, at::device(at::kMeta).dtype(dtype));
}

std::vector<std::uint32_t> slots_of(const std::vector<PlanArgument>& arguments) {
  std::vector<std::uint32_t> slots;
  for (const PlanArgument& argument : arguments) {
    if (const auto* slot = std::get_if<Slot>(&argument)) slots.push_back(slot->index);
    if (const auto* list = std::get_if<SlotList>(&argument))
      for (const Slot& item : *list) slots.push_back(item.index);
  }
  return slots;
}

std::optional<std::vector<std::int64_t>> find_dims(const c10::FunctionSchema& schema,
                                                   const std::vector<PlanArgument>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = schema.arguments()[i].name();
    const auto* value = std::get_if<c10::IValue>(&arguments[i]);
    if ((name != "dim" && name != "dims") || value == nullptr) continue;
    if (value->isInt()) return std::vector<std::int64_t>{value->toInt()};
    if (value->isIntList()) return value->toIntVector();
  }
  return std::nullopt;
}

std::vector<at::Tensor> run_on_single_ones(const c10::OperatorHandle& op,
                                           const std::vector<PlanArgument>& arguments,
                                           const std::vector<at::Tensor>& metas) {
  std::vector<at::Tensor> ones(metas.size());
  Shape shape;
  for (const std::uint32_t slot : slots_of(arguments)) {
    const at::Tensor& meta = metas[slot];
    shape = at::infer_size(shape, meta.sizes());
    const Shape sides(static_cast<std::size_t>(meta.dim()), 1);
    ones[slot] = at::ones(sides, at::device(at::kCPU).dtype(meta.scalar_type()));
    if (is_number(meta)) mark_number(ones[slot]);
  }
  std::vector<at::Tensor> results;
  for (const at::Tensor& tensor : call(op, arguments, ones, at::kCPU))
    results.push_back(meta_like(shape, tensor.scalar_type()));
  return results;
}

std::optional<std::vector<at::Tensor>> run_on_small_zeros(
    const c10::OperatorHandle& op, const std::vector<PlanArgument>& arguments,
    const std::vector<at::Tensor>& metas) {
  const auto slots = slots_of(arguments);
  if (slots.size() != 1) return std::nullopt;
  const at::Tensor& first = metas[slots.front()];
  const std::vector<bool> none(static_cast<std::size_t>(first.dim()), false);
  std::vector<at::Tensor> values(metas.size());
  values[slots.front()] = zeros(shrink(first.sizes(), none), first.scalar_type());
  std::vector<at::Tensor> results;
  for (const at::Tensor& tensor : call(op, arguments, values, at::kCPU)) {
    if (tensor.dim() > 0) return std::nullopt;
    results.push_back(meta_like({}, tensor.scalar_type()));
  }
  return results;
}

std::vector<at::Tensor> run_on_zeros(const c10::OperatorHandle& op,
                                     const std::vector<PlanArgument>& arguments,
                                     const std::vector<at::Tensor>& metas,
                                     const std::optional<std::vector<std::int64_t>>& dims,
                                     std::int64_t max_zeros) {
  std::vector<at::Tensor> values(metas.size());
  const auto slots = slots_of(arguments);
  for (const std::uint32_t slot : slots)
    values[slot] = zeros(metas[slot].sizes().vec(), metas[slot].scalar_type());
  const bool is_along = dims && !dims->empty() && !slots.empty();
  const at::Tensor& first = metas[slots.front()];
  const auto marked = is_along ? mark(*dims, first.dim()) : std::nullopt;
  if (marked) values[slots.front()] = zeros(shrink(first.sizes(), *marked), first.scalar_type());
  std::int64_t count = 0;
  for (const std::uint32_t slot : slots) count += values[slot].numel();
  TORCH_CHECK(count <= max_zeros, "to learn its shape it would be tried on ", count,
              " zeros, the limit is ", max_zeros);
  std::vector<at::Tensor> results;
  for (const at::Tensor& tensor : call(op, arguments, values, at::kCPU)) {
    const Shape shape =
        marked ? grow(tensor.sizes(), first.sizes(), *marked) : tensor.sizes().vec();
    results.push_back(meta_like(shape, tensor.scalar_type()));
  }
  return results;
}

}  // namespace tt::eval

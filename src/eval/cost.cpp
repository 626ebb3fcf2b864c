#include "src/eval/cost.h"

#include <algorithm>
#include <cmath>

namespace tt::eval {
namespace {

// Approximate number of sweeps of a singular value decomposition.
constexpr double kMatrixSweeps = 20;

double largest(const std::vector<at::Tensor>& tensors) {
  double elements = 0;
  for (const at::Tensor& tensor : tensors)
    elements = std::max(elements, static_cast<double>(tensor.numel()));
  return elements;
}

double all_elements(const std::vector<at::Tensor>& tensors) {
  double elements = 0;
  for (const at::Tensor& tensor : tensors) elements += static_cast<double>(tensor.numel());
  return elements;
}

double longest_side(const at::Tensor& tensor) {
  double side = 1;
  for (const std::int64_t size : tensor.sizes()) side = std::max(side, static_cast<double>(size));
  return side;
}

// Elements of the shape that all tensors broadcast to. If sizes do not fit, the operator refuses
// them later.
double broadcast_elements(const std::vector<at::Tensor>& tensors) {
  std::int64_t rank = 0;
  for (const at::Tensor& tensor : tensors) rank = std::max(rank, tensor.dim());
  double elements = 1;
  for (std::int64_t dim = 1; dim <= rank; ++dim) {
    std::int64_t size = 1;
    for (const at::Tensor& tensor : tensors)
      if (dim <= tensor.dim()) size = std::max(size, tensor.size(-dim));
    elements *= static_cast<double>(size);
  }
  return elements;
}

}  // namespace

double estimate_cost(Cost cost, const std::vector<at::Tensor>& arguments,
                     const std::vector<at::Tensor>& results) {
  const double elements = std::max(largest(arguments), largest(results));
  if (arguments.empty()) return elements;
  const at::Tensor& first = arguments.front();
  switch (cost) {
    case Cost::kView:
      return 0;
    case Cost::kElements:
      return elements;
    case Cost::kSort:
      return elements * std::max(1.0, std::log2(std::max(1.0, elements)));
    case Cost::kMatmul: {
      const double inner = first.dim() > 1 ? static_cast<double>(first.size(-1)) : 1;
      return std::max(elements, largest(results) * inner);
    }
    case Cost::kJoined:
      return std::max(elements, all_elements(arguments));
    case Cost::kBroadcast:
      return std::max(elements, broadcast_elements(arguments));
    case Cost::kMatrix:
      return elements * longest_side(first) * kMatrixSweeps;
  }
  return elements;
}

double estimate_scratch(Cost cost, const std::vector<at::Tensor>& arguments,
                        const std::vector<at::Tensor>& results) {
  if (cost == Cost::kBroadcast) return broadcast_elements(arguments);
  if (cost == Cost::kJoined) return all_elements(arguments);
  const bool is_batched = cost == Cost::kMatmul && arguments.size() == 2 && !results.empty() &&
                          std::max(arguments[0].dim(), arguments[1].dim()) > 2;
  if (!is_batched) return 0;
  // Batches are copied when they broadcast: [batch, m, k] and [batch, k, n] for a result [batch, m,
  // n].
  const auto side = [](const at::Tensor& tensor, std::int64_t dim) {
    return tensor.dim() < -dim ? 1.0
                               : static_cast<double>(std::max<std::int64_t>(tensor.size(dim), 1));
  };
  const double inner = side(arguments[0], -1);
  const double rows = side(arguments[0], -2);
  const double columns = arguments[1].dim() < 2 ? 1.0 : side(arguments[1], -1);
  const double batch = largest(results) / (rows * columns);
  return batch * inner * std::max(rows, columns);
}

}  // namespace tt::eval

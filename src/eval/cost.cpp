#include "src/eval/cost.h"

#include <algorithm>
#include <cmath>

namespace tt::eval {
namespace {

// Sweeps of a singular value decomposition, roughly.
constexpr double kMatrixSweeps = 20;

double largest(const std::vector<at::Tensor>& tensors) {
  double elements = 0;
  for (const at::Tensor& tensor : tensors) {
    elements = std::max(elements, static_cast<double>(tensor.numel()));
  }
  return elements;
}

double longest_side(const at::Tensor& tensor) {
  double side = 1;
  for (const std::int64_t size : tensor.sizes()) side = std::max(side, static_cast<double>(size));
  return side;
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
    case Cost::kMatrix:
      return elements * longest_side(first) * kMatrixSweeps;
  }
  return elements;
}

}  // namespace tt::eval

#include "src/checkpoint/tensor_bytes.h"

#include <utility>

namespace tt::checkpoint {
namespace {

constexpr std::size_t kMaxDims = 8;
constexpr std::uint64_t kMaxNumbers = kMaxTensorFileBytes;

std::vector<std::int64_t> row_major(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t dim = shape.size(); dim-- > 1;) strides[dim - 1] = strides[dim] * shape[dim];
  return strides;
}

}  // namespace

std::size_t bytes_of(Number number) {
  switch (number) {
    case Number::kF64:
      return 8;
    case Number::kF32:
      return 4;
    default:
      return 2;
  }
}

base::Error bad_tensor(std::string message) {
  return {"invalid_argument", std::move(message), {}, "save one tensor of float numbers"};
}

base::Result<TensorBytes> check_tensor(TensorBytes found, std::size_t file_bytes) {
  const base::Error misfit = bad_tensor("its shape does not fit its size");
  const std::size_t number = bytes_of(found.number);
  if (found.shape.size() > kMaxDims) return bad_tensor("it has more than 8 dims");
  if (found.begin > file_bytes || found.size > file_bytes - found.begin || found.size % number != 0)
    return misfit;
  std::uint64_t count = 1;
  for (const std::int64_t extent : found.shape) {
    if (extent <= 0 || static_cast<std::uint64_t>(extent) > kMaxNumbers / count) return misfit;
    count *= static_cast<std::uint64_t>(extent);
  }
  if (count * number > kMaxTensorFileBytes) return bad_tensor("it has more than 256 MiB");
  if (found.strides.empty()) found.strides = row_major(found.shape);
  if (found.strides.size() != found.shape.size() || found.offset < 0) return misfit;
  auto last = static_cast<std::uint64_t>(found.offset);
  for (std::size_t dim = 0; dim < found.shape.size(); ++dim) {
    const auto steps = static_cast<std::uint64_t>(found.shape[dim] - 1);
    const std::int64_t stride = found.strides[dim];
    if (stride < 0 || last > kMaxNumbers) return misfit;
    if (steps > 0 && static_cast<std::uint64_t>(stride) > kMaxNumbers / steps) return misfit;
    last += steps * static_cast<std::uint64_t>(stride);
  }
  if (last >= found.size / number) return misfit;
  return found;
}

}  // namespace tt::checkpoint

#include "src/checkpoint/single_tensor.h"

#include <ATen/ATen.h>

#include <cstring>

#include "src/checkpoint/tensor_bytes.h"

namespace tt::checkpoint {
namespace {

at::ScalarType dtype_of(Number number) {
  switch (number) {
    case Number::kF64:
      return at::kDouble;
    case Number::kF32:
      return at::kFloat;
    case Number::kF16:
      return at::kHalf;
    default:
      return at::kBFloat16;
  }
}

base::Result<at::Tensor> copy_of(const std::string& file, const base::Result<TensorBytes>& found) {
  if (!found) return found.error();
  const TensorBytes& tensor = found.value();
  const auto count = static_cast<std::int64_t>(tensor.size / bytes_of(tensor.number));
  at::Tensor numbers = at::empty({count}, at::device(at::kCPU).dtype(dtype_of(tensor.number)));
  std::memcpy(numbers.mutable_data_ptr(), file.data() + tensor.begin, tensor.size);
  return numbers.as_strided(tensor.shape, tensor.strides, tensor.offset).contiguous();
}

}  // namespace

base::Result<at::Tensor> tensor_of_pt(const std::string& bytes) {
  return copy_of(bytes, find_in_pt(bytes));
}

base::Result<at::Tensor> tensor_of_npy(const std::string& bytes) {
  return copy_of(bytes, find_in_npy(bytes));
}

base::Result<at::Tensor> tensor_of_safetensors(const std::string& bytes, const std::string& name) {
  return copy_of(bytes, find_in_safetensors(bytes, name));
}

}  // namespace tt::checkpoint

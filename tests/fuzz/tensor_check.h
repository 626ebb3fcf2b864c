#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/checkpoint/tensor_bytes.h"
#include "tests/fuzz/fuzz.h"

namespace tt::fuzz {

/// What must hold for any reader of a tensor's file: all numbers of the tensor lie inside the file,
/// and those that are copied out of it are bounded.
inline void check_tensor(const base::Result<checkpoint::TensorBytes>& found, std::size_t file) {
  if (!found) {
    require(!to_string(found.error()).empty(), "an error says something");
    return;
  }
  const checkpoint::TensorBytes& tensor = found.value();
  const std::size_t number = checkpoint::bytes_of(tensor.number);
  require(tensor.begin <= file && tensor.size <= file - tensor.begin, "the bytes lie in the file");
  require(tensor.size % number == 0, "they are whole numbers");
  require(tensor.shape.size() == tensor.strides.size(), "every dim has a stride");
  std::uint64_t last = static_cast<std::uint64_t>(tensor.offset), count = 1;
  for (std::size_t dim = 0; dim < tensor.shape.size(); ++dim) {
    require(tensor.shape[dim] > 0 && tensor.strides[dim] >= 0, "no dim is empty or runs back");
    count *= static_cast<std::uint64_t>(tensor.shape[dim]);
    last += static_cast<std::uint64_t>(tensor.shape[dim] - 1) *
            static_cast<std::uint64_t>(tensor.strides[dim]);
    require(count * number <= checkpoint::kMaxTensorFileBytes, "the tensor is bounded");
  }
  require(last < tensor.size / number, "the last number lies in the bytes");
}

}  // namespace tt::fuzz

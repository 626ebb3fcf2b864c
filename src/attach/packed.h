#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace tt::attach {

/// What a rank that holds the whole tensor sends of it: the bytes that the compressor's kernel
/// writes on the tensor's device, uint8. `numbers`: [rows, lines, columns]. `compressor`: JSON as
/// in a plan; "projection" knows one vector, "given". `vector`: float [columns], undefined: zeros.
/// For checks of a device against the CPU. Throws std::runtime_error.
at::Tensor packed(const at::Tensor& numbers, const std::string& compressor,
                  const at::Tensor& vector);

}  // namespace tt::attach

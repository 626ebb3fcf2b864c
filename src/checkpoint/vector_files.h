#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "tensor_tracer/base/result.h"

/// Readers of the one tensor in a file's bytes; an error's message says what is wrong with them.
namespace tt::checkpoint {

base::Result<at::Tensor> tensor_of_pt(const std::string& bytes);
base::Result<at::Tensor> tensor_of_npy(const std::string& bytes);
/// With a name that tensor of several, else the only one.
base::Result<at::Tensor> tensor_of_safetensors(const std::string& bytes, const std::string& name);

}  // namespace tt::checkpoint

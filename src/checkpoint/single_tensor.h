#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "tensor_tracer/base/result.h"

/// Readers of a single tensor in a file's bytes. An error's message describes the error in the
/// bytes.
namespace tt::checkpoint {

base::Result<at::Tensor> tensor_of_pt(const std::string& bytes);
base::Result<at::Tensor> tensor_of_npy(const std::string& bytes);
/// With a name: the tensor of this name. With an empty name: the only tensor.
base::Result<at::Tensor> tensor_of_safetensors(const std::string& bytes, const std::string& name);

}  // namespace tt::checkpoint

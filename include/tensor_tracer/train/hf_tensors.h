#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/checkpoint/safetensors.h"
#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/nn/low_rank.h"
#include "tensor_tracer/nn/parameter.h"

/// The tensors of a model as its family of Hugging Face has them: fused matrices in their parts,
/// the adapters added to the weights. Thread: any.
namespace tt::train {

/// Returns the whole tensor of a parameter, on the CPU; undefined on a rank that does not write it.
using WholeTensor = std::function<base::Result<at::Tensor>(const nn::Parameter&)>;

/// A model. All members outlive the object.
struct HfSource {
  const nlohmann::json& config;  // config.json of the family
  const config::ModelConfig& model;
  const std::vector<nn::Parameter>& parameters;
  const std::vector<nn::LowRank>& adapters;
};

/// All tensors, in the order of write_hf_tensors(). `dtype_of`: of the tensors of a parameter.
std::vector<checkpoint::TensorSpec> hf_tensors(
    const HfSource& source, const std::function<at::ScalarType(const nn::Parameter&)>& dtype_of);

/// Calls `write` with each tensor. A weight with adapters is at least float32. One parameter is in
/// memory at a time. Error: the first of `whole` or `write`. Collective over the ranks of `whole`.
base::Status write_hf_tensors(const HfSource& source, const WholeTensor& whole,
                              const std::function<base::Status(const at::Tensor&)>& write);

}  // namespace tt::train

#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/checkpoint/safetensors.h"
#include "tensor_tracer/checkpoint/tensor_store.h"
#include "tensor_tracer/config/train_config.h"
#include "tensor_tracer/model/gpt.h"

namespace tt::cli {

/// The tensors of a model, read one after another, so that only one is in memory.
class ModelReader {
 public:
  using Sink = std::function<base::Status(const at::Tensor&)>;
  virtual ~ModelReader() = default;
  /// Names, shapes and dtypes in the files, in the order of read().
  virtual std::vector<checkpoint::TensorSpec> tensors() const = 0;
  /// Calls `sink` with each tensor; its dtype may be wider than that of tensors(). Error: the first
  /// of the files or of `sink`.
  virtual base::Status read(const Sink& sink) const = 0;
};

/// Tensors of files as they are. REQUIRES: `names` are tensors of the store.
class StoredTensors : public ModelReader {
 public:
  StoredTensors(std::shared_ptr<const checkpoint::TensorStore> store,
                std::vector<std::string> names);
  std::vector<checkpoint::TensorSpec> tensors() const override;
  base::Status read(const Sink& sink) const override;

 private:
  std::shared_ptr<const checkpoint::TensorStore> store_;
  std::vector<std::string> names_;
};

/// The parameters of a model as its family of Hugging Face has them, with the adapters added.
class FamilyTensors : public ModelReader {
 public:
  /// `config`: config.json of the family. `weights`: the parameters by our names, and also those of
  /// the adapters if `adapters` is null. REQUIRES: the stores have all parameters.
  FamilyTensors(nlohmann::json config, const config::ModelConfig& model,
                std::shared_ptr<const checkpoint::TensorStore> weights,
                std::shared_ptr<const checkpoint::TensorStore> adapters);
  std::vector<checkpoint::TensorSpec> tensors() const override;
  base::Status read(const Sink& sink) const override;

 private:
  const checkpoint::TensorStore& store_of(const nn::Parameter& parameter) const;

  const nlohmann::json config_;
  const config::ModelConfig model_;
  const std::shared_ptr<const checkpoint::TensorStore> weights_, adapters_;
  const std::vector<nn::Parameter> parameters_;
  const std::vector<nn::LowRank> low_rank_;
};

}  // namespace tt::cli

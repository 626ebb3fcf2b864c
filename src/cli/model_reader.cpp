#include "src/cli/model_reader.h"

#include <utility>

#include "tensor_tracer/train/hf_tensors.h"

namespace tt::cli {

using checkpoint::TensorSpec;
using checkpoint::TensorStore;

StoredTensors::StoredTensors(std::shared_ptr<const TensorStore> store,
                             std::vector<std::string> names)
    : store_(std::move(store)), names_(std::move(names)) {}

std::vector<TensorSpec> StoredTensors::tensors() const {
  std::vector<TensorSpec> tensors;
  for (const std::string& name : names_)
    tensors.push_back({name, *store_->dtype_of(name), *store_->shape_of(name)});
  return tensors;
}

base::Status StoredTensors::read(const Sink& sink) const {
  for (const std::string& name : names_) {
    const auto tensor = store_->read(name);
    if (!tensor) return tensor.error();
    if (auto status = sink(tensor.value()); !status) return status;
  }
  return {};
}

FamilyTensors::FamilyTensors(nlohmann::json config, const config::ModelConfig& model,
                             std::shared_ptr<const TensorStore> weights,
                             std::shared_ptr<const TensorStore> adapters)
    : config_(std::move(config)),
      model_(model),
      weights_(std::move(weights)),
      adapters_(std::move(adapters)),
      parameters_(model::describe_model(model_, 1).parameters()),
      low_rank_(model::describe_model(model_, 1).adapters()) {}

const TensorStore& FamilyTensors::store_of(const nn::Parameter& parameter) const {
  return adapters_ != nullptr && nn::is_adapter(parameter.name) ? *adapters_ : *weights_;
}

std::vector<TensorSpec> FamilyTensors::tensors() const {
  return train::hf_tensors(
      {config_, model_, parameters_, low_rank_},
      [&](const auto& parameter) { return *store_of(parameter).dtype_of(parameter.name); });
}

base::Status FamilyTensors::read(const Sink& sink) const {
  return train::write_hf_tensors(
      {config_, model_, parameters_, low_rank_},
      [&](const nn::Parameter& parameter) { return store_of(parameter).read(parameter.name); },
      sink);
}

}  // namespace tt::cli

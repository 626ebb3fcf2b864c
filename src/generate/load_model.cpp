#include <algorithm>
#include <utility>
#include <vector>

#include "tensor_tracer/generate/generator.h"
#include "tensor_tracer/train/checkpoints.h"

namespace tt::generate {

base::Result<std::unique_ptr<model::Gpt>> load_model(const config::TrainConfig& config,
                                                     const checkpoint::TensorStore& weights,
                                                     const checkpoint::TensorStore* adapters,
                                                     const comm::ProcessGroup& tensor) {
  const at::ScalarType params = config.params_dtype == "float64" ? at::kDouble : at::kFloat;
  const nn::BuildContext context{.tensor = tensor,
                                 .params_dtype = params,
                                 .compute_dtype = config.bf16 ? at::kBFloat16 : params,
                                 .loads_parameters = true,
                                 .frozen = {"*"}};
  auto model = std::make_unique<model::Gpt>(context, config.model, config.micro_batch_size);
  std::vector<nn::Parameter> parameters = model->parameters();
  const auto of_model = std::ranges::partition(
      parameters, [](const nn::Parameter& one) { return nn::is_adapter(one.name); });
  const std::vector<nn::Parameter> own(of_model.begin(), of_model.end());
  parameters.erase(of_model.begin(), parameters.end());
  auto status = train::load_weights(weights, own, tensor);
  if (status && adapters != nullptr) status = train::load_weights(*adapters, parameters, tensor);
  if (!status) return status.error();
  return model;
}

}  // namespace tt::generate

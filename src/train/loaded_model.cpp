#include "tensor_tracer/train/loaded_model.h"

#include "tensor_tracer/dtypes/names.h"
#include "tensor_tracer/nn/context.h"

namespace tt::train {

base::Result<std::unique_ptr<model::Gpt>> load_model(const config::TrainConfig& config,
                                                     const WeightStores& stores,
                                                     const comm::ProcessGroup& tensor) {
  const at::ScalarType dtype = dtypes::named(config.compute_dtype());
  const nn::BuildContext context{.tensor = tensor,
                                 .params_dtype = dtype,
                                 .compute_dtype = dtype,
                                 .loads_parameters = true,
                                 .frozen = {"*"}};
  auto model = std::make_unique<model::Gpt>(context, config.model, config.micro_batch_size);
  if (auto status = load_weights(stores, model->parameters(), tensor); !status)
    return status.error();
  return model;
}

}  // namespace tt::train

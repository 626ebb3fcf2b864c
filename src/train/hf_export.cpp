#include "src/train/hf_export.h"

#include <utility>

#include "tensor_tracer/comm/collectives.h"
#include "tensor_tracer/train/hf_tensors.h"

namespace tt::train {

base::Status write_hf(HfFolder folder, const config::ModelConfig& model,
                      const std::vector<nn::Parameter>& parameters,
                      const std::vector<nn::LowRank>& adapters, const Groups& groups) {
  const bool is_first = groups.world.rank() == 0;
  const at::ScalarType dtype = parameters.front().value().scalar_type();
  folder.config = with_dtype(std::move(folder.config), dtype);
  const HfSource source{folder.config, model, parameters, adapters};
  base::Status status;
  HfWriter writer(folder, "--save-hf");
  if (is_first)
    status = writer.begin(hf_tensors(source, [&](const nn::Parameter&) { return dtype; }));
  // Data replica 0 holds the whole model. After an error, rank 0 still gathers with the others.
  if (groups.coordinates.data == 0) {
    const auto whole = [&](const nn::Parameter& one) -> base::Result<at::Tensor> {
      return nn::gather_full(one.value(), one.placement, groups.tensor);
    };
    const auto write = [&](const at::Tensor& tensor) {
      if (status) status = writer.add(tensor.to(dtype));
      return base::Status();
    };
    if (auto gathered = write_hf_tensors(source, whole, write); !gathered) status = gathered;
  }
  if (is_first && status) status = writer.finish();
  if (comm::all_of(groups.world, status.ok()) || !status) return status;
  return base::Error{"storage", "rank 0 could not write the model", "--save-hf",
                     "see the error of rank 0"};
}

}  // namespace tt::train

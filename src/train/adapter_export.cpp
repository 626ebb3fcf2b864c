#include "src/train/adapter_export.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "src/train/new_folder.h"
#include "tensor_tracer/base/check.h"
#include "tensor_tracer/checkpoint/safetensors.h"
#include "tensor_tracer/comm/collectives.h"
#include "tensor_tracer/hf/adapter.h"

namespace tt::train {
namespace {

base::Status write_files(NewFolder& folder, const nlohmann::json& config,
                         const std::vector<checkpoint::NamedTensor>& tensors) {
  const auto path = folder.path();
  const auto written = checkpoint::write_safetensors((path / "adapter_model.safetensors").string(),
                                                     tensors, {{"format", "pt"}});
  if (!written) return written.error();
  if (auto status = folder.write("adapter_config.json", config.dump(2) + "\n"); !status)
    return status;
  return folder.publish();
}

}  // namespace

base::Status write_adapters(const AdapterFolder& folder, const config::ModelConfig& model,
                            const std::vector<nn::LowRank>& adapters, const Groups& groups) {
  const at::NoGradGuard no_grad;
  std::vector<checkpoint::NamedTensor> tensors;
  // Data replica 0 holds the whole model.
  if (groups.coordinates.data == 0) {
    for (const nn::LowRank& adapter : adapters) {
      const auto module =
          hf::adapter_module(folder.model_config, model, adapter.layer(), adapter.target());
      TT_CHECK(module.has_value(), "an adapter without a name was not refused");
      const auto add = [&](const nn::Parameter& one, const char* matrix) {
        tensors.push_back({hf::adapter_tensor(*module, matrix),
                           nn::gather_full(one.local, one.placement, groups.tensor)});
      };
      add(adapter.a(), "lora_A");
      add(adapter.b(), "lora_B");
    }
  }
  base::Status status;
  if (groups.world.rank() == 0) {
    NewFolder made(folder.path, "--save-adapter", folder.replaces);
    status = made.make();
    if (status) status = write_files(made, folder.adapter_config, tensors);
  }
  if (comm::all_of(groups.world, status.ok()) || !status) return status;
  return base::Error{"storage", "rank 0 could not write the adapters", "--save-adapter",
                     "see the error of rank 0"};
}

}  // namespace tt::train

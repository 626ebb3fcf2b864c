#include "src/train/export.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <system_error>

#include "tensor_tracer/checkpoint/safetensors.h"
#include "tensor_tracer/comm/collectives.h"

namespace tt::train {
namespace {

std::map<std::string, std::string> metadata_of(const ExportedStep& exported) {
  return {{"format", "pt"},
          {"step", std::to_string(exported.step)},
          {"loss", fmt::format("{}", exported.loss)},
          {"config", config::to_json(exported.model).dump()}};
}

base::Status write_file(const std::string& folder, const ExportedStep& exported,
                        const std::vector<checkpoint::NamedTensor>& tensors) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return base::Error{"storage", "\"" + folder + "\" cannot be made: " + error.message(),
                       "--export-tensors", "give a folder that can be written"};
  }
  const auto written = checkpoint::write_safetensors(
      fmt::format("{}/step_{:06d}.safetensors", folder, exported.step), tensors,
      metadata_of(exported));
  return written ? base::Status() : written.error();
}

}  // namespace

base::Status write_export(const std::string& folder, const ExportedStep& exported,
                          const Groups& groups) {
  const at::NoGradGuard no_grad;
  std::vector<checkpoint::NamedTensor> tensors = {{"tokens", exported.batch.tokens},
                                                  {"labels", exported.batch.labels}};
  if (exported.batch.starts.defined())
    tensors.push_back({"document_starts", exported.batch.starts});
  if (exported.batch.counted.defined()) tensors.push_back({"loss_mask", exported.batch.counted});
  // Data replica 0 holds the whole model.
  if (groups.coordinates.data == 0) {
    for (const nn::Parameter& parameter : exported.parameters) {
      const auto full = [&](const at::Tensor& local) {
        return nn::gather_full(local, parameter.placement, groups.tensor);
      };
      tensors.push_back({"weight/" + parameter.name, full(parameter.value())});
      if (parameter.is_trained)
        tensors.push_back({"grad/" + parameter.name, full(parameter.local.grad())});
    }
  }
  base::Status status;
  if (groups.world.rank() == 0) status = write_file(folder, exported, tensors);
  if (comm::all_of(groups.world, status.ok()) || !status) return status;
  return base::Error{"storage", "rank 0 could not write the export", "--export-tensors", ""};
}

}  // namespace tt::train

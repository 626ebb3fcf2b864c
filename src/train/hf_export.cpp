#include "src/train/hf_export.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <filesystem>
#include <initializer_list>
#include <optional>
#include <system_error>

#include "src/train/adapter_export.h"
#include "src/train/new_folder.h"
#include "tensor_tracer/checkpoint/model_files.h"
#include "tensor_tracer/comm/collectives.h"
#include "tensor_tracer/hf/model.h"

namespace tt::train {
namespace {

namespace fs = std::filesystem;

constexpr std::initializer_list<const char*> kTokenizerFiles = {"tokenizer.json",
                                                                "tokenizer_config.json",
                                                                "special_tokens_map.json",
                                                                "added_tokens.json",
                                                                "vocab.json",
                                                                "merges.txt",
                                                                "tokenizer.model",
                                                                "chat_template.jinja"};

base::Status add(checkpoint::ModelFiles& files, const at::Tensor& full, const hf::Source& source) {
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < source.tensors.size(); ++i) {
    const std::int64_t size = source.sizes.empty() ? full.size(0) : source.sizes[i];
    at::Tensor part = full.narrow(0, begin, size);
    if (source.transposed) part = part.t();
    begin += size;
    // A copy, because the whole of a fused matrix is freed.
    auto status = files.add({source.tensors[i], part.clone(at::MemoryFormat::Contiguous)});
    if (!status) return status;
  }
  return {};
}

base::Status write_config(const NewFolder& folder, nlohmann::json config, at::ScalarType dtype) {
  config.erase("torch_dtype");
  config["dtype"] = dtype == at::kDouble ? "float64" : "float32";
  return folder.write("config.json", config.dump(2) + "\n");
}

base::Status copy_files(const std::string& from, std::initializer_list<const char*> names,
                        const NewFolder& to) {
  for (const char* name : names) {
    std::error_code error;
    if (from.empty() || !fs::exists(fs::path(from) / name, error)) continue;
    if (auto status = to.copy(fs::path(from) / name); !status) return status;
  }
  return {};
}

base::Status complete(const HfFolder& folder, NewFolder& made, checkpoint::ModelFiles& files,
                      at::ScalarType dtype) {
  auto status = files.finish();
  if (status) status = write_config(made, folder.config, dtype);
  if (status) status = copy_files(folder.model_from, {"generation_config.json"}, made);
  if (status) status = copy_files(folder.tokenizer_from, kTokenizerFiles, made);
  return status ? made.publish() : status;
}

}  // namespace

base::Status write_hf(const HfFolder& folder, const config::ModelConfig& model,
                      const std::vector<nn::Parameter>& parameters,
                      const std::vector<nn::LowRank>& adapters, const Groups& groups) {
  const at::NoGradGuard no_grad;
  const bool is_first = groups.world.rank() == 0;
  base::Status status;
  NewFolder made(folder.path, "--save-hf", folder.replaces);
  std::optional<checkpoint::ModelFiles> files;
  if (is_first) {
    status = made.make();
    files.emplace(made.path().string());
  }
  // Data replica 0 holds the whole model.
  if (groups.coordinates.data == 0) {
    for (const nn::Parameter& parameter : parameters) {
      if (nn::is_adapter(parameter.name)) continue;
      const at::Tensor full = merged_weight(parameter, adapters, groups.tensor);
      if (is_first && status)
        status = add(*files, full, hf::source_of(folder.config, model, parameter.name));
    }
  }
  if (is_first && status)
    status = complete(folder, made, *files, parameters.front().local.scalar_type());
  if (comm::all_of(groups.world, status.ok()) || !status) return status;
  return base::Error{"storage", "rank 0 could not write the model", "--save-hf",
                     "see the error of rank 0"};
}

}  // namespace tt::train

#include "src/train/hf_export.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "tensor_tracer/checkpoint/model_files.h"
#include "tensor_tracer/comm/collectives.h"
#include "tensor_tracer/hf/model.h"

namespace tt::train {
namespace {

namespace fs = std::filesystem;

// The files of a tokenizer, and what generate() needs.
constexpr std::array<const char*, 9> kCopiedFiles = {
    "tokenizer.json",     "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json",  "vocab.json",            "merges.txt",
    "tokenizer.model",    "chat_template.jinja",   "generation_config.json"};

base::Error cannot(const fs::path& path, const std::string& message) {
  return {"storage", "\"" + path.string() + "\" " + message, "--save-hf",
          "give a folder that can be written"};
}

// The folder until it is complete.
fs::path hidden_of(const fs::path& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  const fs::path named = whole.has_filename() ? whole : whole.parent_path();
  return named.parent_path() / ("." + named.filename().string() + ".partial");
}

base::Status make_hidden(const fs::path& hidden) {
  std::error_code error;
  fs::remove_all(hidden, error);
  fs::create_directories(hidden, error);
  return error ? base::Status(cannot(hidden, "cannot be made: " + error.message())) : base::Status();
}

base::Status write_config(const fs::path& folder, nlohmann::json config, at::ScalarType dtype) {
  config.erase("torch_dtype");
  config["dtype"] = dtype == at::kDouble ? "float64" : "float32";
  std::ofstream file(folder / "config.json");
  file << config.dump(2) << "\n";
  file.close();
  return file ? base::Status() : cannot(folder / "config.json", "cannot be written");
}

base::Status copy_files(const std::string& from, const fs::path& to) {
  if (from.empty()) return {};
  for (const char* name : kCopiedFiles) {
    std::error_code error;
    if (!fs::exists(fs::path(from) / name, error)) continue;
    fs::copy_file(fs::path(from) / name, to / name, error);
    if (error) return cannot(to / name, "cannot be written: " + error.message());
  }
  return {};
}

base::Status add(checkpoint::ModelFiles& files, const at::Tensor& full, const hf::Source& source) {
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < source.tensors.size(); ++i) {
    const std::int64_t size = source.sizes.empty() ? full.size(0) : source.sizes[i];
    at::Tensor part = full.narrow(0, begin, size);
    if (source.transposed) part = part.t();
    begin += size;
    // A copy: the parameter may change before its file is full.
    auto status = files.add({source.tensors[i], part.clone(at::MemoryFormat::Contiguous)});
    if (!status) return status;
  }
  return {};
}

// An older model is replaced.
base::Status put_in_place(const fs::path& hidden, const fs::path& path) {
  const fs::path old = hidden.string() + ".old";
  std::error_code error;
  if (fs::exists(path, error)) fs::rename(path, old, error);
  if (!error) fs::rename(hidden, path, error);
  if (error) return cannot(path, "cannot be made: " + error.message());
  fs::remove_all(old, error);
  return {};
}

base::Status complete(const HfFolder& folder, const fs::path& hidden,
                      checkpoint::ModelFiles& files, at::ScalarType dtype) {
  auto status = files.finish();
  if (status) status = write_config(hidden, folder.config, dtype);
  if (status) status = copy_files(folder.tokenizer_from, hidden);
  if (!status) return status;
  return put_in_place(hidden, folder.path);
}

}  // namespace

base::Status write_hf(const HfFolder& folder, const config::ModelConfig& model,
                      const std::vector<nn::Parameter>& parameters, const Groups& groups) {
  const at::NoGradGuard no_grad;
  const bool is_first = groups.world.rank() == 0;
  base::Status status;
  std::optional<checkpoint::ModelFiles> files;
  const fs::path hidden = hidden_of(folder.path);
  if (is_first) {
    status = make_hidden(hidden);
    files.emplace(hidden.string());
  }
  // Data replica 0 holds the whole model.
  if (groups.coordinates.data == 0) {
    for (const nn::Parameter& parameter : parameters) {
      const at::Tensor full =
          nn::gather_full(parameter.local, parameter.placement, groups.tensor);
      if (is_first && status)
        status = add(*files, full, hf::source_of(folder.config, model, parameter.name));
    }
  }
  if (is_first && status)
    status = complete(folder, hidden, *files, parameters.front().local.scalar_type());
  if (comm::all_of(groups.world, status.ok()) || !status) return status;
  return base::Error{"storage", "rank 0 could not write the model", "--save-hf", ""};
}

}  // namespace tt::train

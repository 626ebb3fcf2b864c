#include "src/cli/hf_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "src/cli/shared_store.h"
#include "tensor_tracer/comm/collectives.h"
#include "tensor_tracer/model/gpt.h"

namespace tt::cli {
namespace {

using checkpoint::TensorStore;
using config::ModelConfig;
using nlohmann::json;
using Shape = std::vector<std::int64_t>;

// The values of the model's options, by flag.
std::map<std::string, json> model_values(config::TrainConfig& config) {
  std::map<std::string, json> values;
  for (const config::Option& option : config::train_options(config))
    if (option.group == "Model") values[option.flag] = config::value_of(option);
  return values;
}

// Writers leave out the prefix if they saved the inner model.
std::string name_in(const TensorStore& store, const std::string& name, const std::string& prefix) {
  if (!store.shape_of(name) && name.starts_with(prefix) &&
      store.shape_of(name.substr(prefix.size())))
    return name.substr(prefix.size());
  return name;
}

base::Status check_shape(const TensorStore& store, const std::string& name, Shape expected,
                         bool is_transposed) {
  if (is_transposed) std::ranges::reverse(expected);
  const auto found = store.shape_of(name);
  if (found == expected) return {};
  if (!found) {
    return base::Error{"not_found", "has no tensor " + name + ", which config.json needs",
                       "--hf-model", "give all files of one model"};
  }
  return base::invalid_argument("--hf-model",
                                fmt::format("{} has the shape {}, and config.json needs {}", name,
                                            json(*found).dump(), json(expected).dump()),
                                "give the files of one model");
}

// Adds a tensor for one of our parameters. `used`: gets the names of its sources.
base::Status define(TensorStore& store, const nn::Parameter& parameter, hf::Source source,
                    const std::string& prefix, std::set<std::string>& used) {
  for (std::size_t i = 0; i < source.tensors.size(); ++i) {
    source.tensors[i] = name_in(store, source.tensors[i], prefix);
    Shape shape = parameter.full_shape;
    if (!source.sizes.empty()) shape.front() = source.sizes[i];
    auto status = check_shape(store, source.tensors[i], std::move(shape), source.transposed);
    if (!status) return status;
    used.insert(source.tensors[i]);
  }
  return store.define(parameter.name, {source.tensors, source.transposed});
}

std::string notice_of(const std::vector<std::string>& unused) {
  if (unused.empty()) return "";
  return fmt::format("--hf-model: {} tensors of the files are not used, the first is {}",
                     unused.size(), unused.front());
}

}  // namespace

base::Result<hf::ModelFolder> read_hf_model(config::TrainConfig& config, const json& given) {
  if (config.checkpoint.hf_model.empty()) return hf::ModelFolder{};
  auto folder = hf::read_model_folder(config.checkpoint.hf_model);
  if (!folder) return folder;
  const auto before = model_values(config);
  if (auto status = hf::apply_config(folder.value().config, config.model); !status)
    return status.error();
  for (const auto& [flag, value] : model_values(config)) {
    if (!given.contains(flag.substr(2)) || value == before.at(flag)) continue;
    return base::invalid_argument(
        flag,
        fmt::format("is {}, and the model of --hf-model has {}", config::text_of(before.at(flag)),
                    config::text_of(value)),
        "leave it out");
  }
  return folder;
}

void share_hf_model(hf::ModelFolder& folder, ModelConfig& model, const comm::ProcessGroup& world) {
  std::string packed;
  if (world.rank() == 0) json::to_msgpack(folder.config, packed);
  comm::broadcast_text(world, packed, 0);
  if (world.rank() == 0) return;
  folder.config = json::from_msgpack(packed);
  // Rank 0 has checked it.
  if (!folder.config.is_null()) static_cast<void>(hf::apply_config(folder.config, model));
}

base::Result<HfWeights> open_hf_weights(hf::ModelFolder& folder, const ModelConfig& model,
                                        const comm::ProcessGroup& world) {
  auto opened = open_shared_store(folder.path, folder.files, world);
  if (!opened) return opened.error();
  TensorStore& store = *opened.value();
  const std::vector<std::string> names = store.names();
  const std::string prefix = hf::prefix_of(folder.config);
  std::set<std::string> used;
  const model::Gpt whole = model::describe_model(model, 1);
  for (const nn::Parameter& parameter : whole.parameters()) {
    auto status = define(store, parameter, hf::source_of(folder.config, model, parameter.name),
                         prefix, used);
    if (!status) return status.error();
  }
  std::vector<std::string> unused;
  for (const std::string& name : names)
    if (!used.contains(name) && !hf::is_needless(folder.config, name)) unused.push_back(name);
  return HfWeights{std::move(opened).value(), notice_of(unused)};
}

base::Result<json> prepare_hf_save(const config::TrainConfig& config, const hf::ModelFolder& from) {
  const std::string& path = config.checkpoint.save_hf;
  if (path.empty()) return json();
  std::error_code error;
  // A resumed run replaces the model that it wrote before.
  const bool is_own = !config.checkpoint.load.empty() &&
                      std::filesystem::exists(path + "/config.json", error);
  if (std::filesystem::exists(path, error) && !std::filesystem::is_empty(path, error) && !is_own) {
    return base::invalid_argument("--save-hf", "\"" + path + "\" is not empty",
                                  "give a new folder");
  }
  return from.config.is_null() ? hf::make_config(config.model) : from.config;
}

}  // namespace tt::cli

#include "src/cli/hf_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "src/cli/shared_store.h"
#include "tensor_tracer/base/check.h"
#include "tensor_tracer/comm/collectives.h"
#include "tensor_tracer/hf/adapter.h"
#include "tensor_tracer/hf/generation.h"
#include "tensor_tracer/model/gpt.h"

namespace tt::cli {
namespace {

using checkpoint::TensorStore;
using config::ModelConfig;
using nlohmann::json;
using Shape = std::vector<std::int64_t>;

constexpr const char* kAdapterFile = "adapter_model.safetensors";

// The values of the model's options, by flag.
std::map<std::string, json> model_values(config::TrainConfig& config) {
  std::map<std::string, json> values;
  for (const config::Option& option : config::train_options(config))
    if (option.group == "Model" || option.group == "Fine-tuning")
      values[option.flag] = config::value_of(option);
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
                         bool is_transposed, const char* flag) {
  if (is_transposed) std::ranges::reverse(expected);
  const auto found = store.shape_of(name);
  if (found == expected) return {};
  if (!found) {
    return base::Error{"not_found", "has no tensor " + name + ", which its configuration needs",
                       flag, "give all files of one model"};
  }
  return base::invalid_argument(flag,
                                fmt::format("{} has the shape {}, and its configuration needs {}",
                                            name, json(*found).dump(), json(expected).dump()),
                                "give the files of one model");
}

// Adds a tensor for one of our parameters. `used`: gets the names of its sources.
base::Status define(TensorStore& store, const nn::Parameter& parameter, hf::Source source,
                    const std::string& prefix, std::set<std::string>& used) {
  for (std::size_t i = 0; i < source.tensors.size(); ++i) {
    source.tensors[i] = name_in(store, source.tensors[i], prefix);
    Shape shape = parameter.full_shape;
    if (!source.sizes.empty()) shape.front() = source.sizes[i];
    auto status =
        check_shape(store, source.tensors[i], std::move(shape), source.transposed, "--hf-model");
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

// Adds a tensor for each parameter but those of adapters. Returns the notice.
base::Result<std::string> define_weights(TensorStore& store, const json& config,
                                         const ModelConfig& model, const model::Gpt& whole) {
  const std::vector<std::string> names = store.names();
  std::set<std::string> used;
  for (const nn::Parameter& parameter : whole.parameters()) {
    if (nn::is_adapter(parameter.name)) continue;
    auto status = define(store, parameter, hf::source_of(config, model, parameter.name),
                         hf::prefix_of(config), used);
    if (!status) return status.error();
  }
  std::vector<std::string> unused;
  for (const std::string& name : names)
    if (!used.contains(name) && !hf::is_needless(config, name)) unused.push_back(name);
  return notice_of(unused);
}

base::Status define_adapters(TensorStore& store, const json& config, const ModelConfig& model,
                             const model::Gpt& whole) {
  std::vector<std::string> unused = store.names();
  for (const nn::LowRank& adapter : whole.adapters()) {
    const auto module = hf::adapter_module(config, model, adapter.layer(), adapter.target());
    TT_CHECK(module.has_value(), "a target without a module was not refused");
    for (const auto& [parameter, matrix] :
         {std::pair{adapter.a(), "lora_A"}, std::pair{adapter.b(), "lora_B"}}) {
      const std::string name = hf::adapter_tensor(*module, matrix);
      auto status = check_shape(store, name, parameter.full_shape, false, "--load-adapter");
      if (status) status = store.define(parameter.name, {{name}});
      if (!status) return status;
      std::erase(unused, name);
    }
  }
  if (unused.empty()) return {};
  return base::invalid_argument("--load-adapter",
                                unused.front() + " is a tensor that this program does not use",
                                "give adapters of LoRA without other changes of the model");
}

base::Status read_adapter(config::TrainConfig& config, ModelSource& source) {
  const std::string& path = config.checkpoint.load_adapter;
  if (path.empty()) return {};
  if (source.folder.config.is_null())
    return base::invalid_argument("--load-adapter", "adapters belong to a model", "add --hf-model");
  auto read = hf::read_json_file(path + "/adapter_config.json", hf::kMaxConfigBytes);
  if (!read)
    return base::Error{"invalid_argument", read.error().message, read.error().where,
                       "give a folder that PEFT's save_pretrained() has written"};
  source.adapter = std::move(read).value();
  source.adapter_folder = path;
  return hf::apply_adapter_config(source.adapter, source.folder.config, config.model);
}

}  // namespace

base::Result<ModelSource> read_hf_model(config::TrainConfig& config, const json& given) {
  ModelSource source;
  const config::CheckpointConfig& files = config.checkpoint;
  const auto before = model_values(config);
  if (!files.hf_model.empty()) {
    auto folder = hf::read_model_folder(files.hf_model);
    if (!folder) return folder.error();
    source.folder = std::move(folder).value();
    if (auto status = hf::apply_config(source.folder.config, config.model); !status)
      return status.error();
  }
  if (auto status = read_adapter(config, source); !status) return status.error();
  for (const auto& [flag, value] : model_values(config)) {
    if (!given.contains(flag.substr(2)) || value == before.at(flag)) continue;
    return base::invalid_argument(
        flag,
        fmt::format("is {}, and the folder to begin from has {}", config::text_of(before.at(flag)),
                    config::text_of(value)),
        "leave it out");
  }
  return source;
}

base::Status read_stop_ids(const ModelSource& source, RunTokenizer& tokenizer) {
  if (source.folder.config.is_null()) {
    if (tokenizer.end_of_text) tokenizer.stop_ids = {*tokenizer.end_of_text};
    return {};
  }
  auto ids = hf::read_stop_ids(source.folder);
  if (!ids) return ids.error();
  tokenizer.stop_ids = std::move(ids).value();
  return {};
}

void share_hf_model(ModelSource& source, ModelConfig& model, const comm::ProcessGroup& world) {
  std::string packed;
  if (world.rank() == 0) json::to_msgpack(json{source.folder.config, source.adapter}, packed);
  comm::broadcast_text(world, packed, 0);
  if (world.rank() == 0) return;
  const json shared = json::from_msgpack(packed);
  source.folder.config = shared.at(0);
  source.adapter = shared.at(1);
  // Rank 0 has checked them.
  if (!source.folder.config.is_null())
    static_cast<void>(hf::apply_config(source.folder.config, model));
  if (!source.adapter.is_null())
    static_cast<void>(hf::apply_adapter_config(source.adapter, source.folder.config, model));
}

base::Result<HfWeights> open_hf_weights(ModelSource& source, const ModelConfig& model,
                                        const comm::ProcessGroup& world) {
  HfWeights opened;
  const model::Gpt whole = model::describe_model(model, 1);
  if (!source.folder.config.is_null()) {
    auto store = open_shared_store(source.folder.path, source.folder.files, world);
    if (!store) return store.error();
    auto notice = define_weights(*store.value(), source.folder.config, model, whole);
    if (!notice) return notice.error();
    opened.notice = std::move(notice).value();
    opened.weights = std::move(store).value();
  }
  if (!source.adapter.is_null()) {
    auto store = open_shared_store(source.adapter_folder, {kAdapterFile}, world);
    if (!store) return store.error();
    if (auto status = define_adapters(*store.value(), source.folder.config, model, whole); !status)
      return status.error();
    opened.adapters = std::move(store).value();
  }
  return opened;
}

}  // namespace tt::cli

#include "src/cli/hf_model.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "src/cli/run_tokenizer.h"
#include "src/cli/shared_store.h"
#include "tensor_tracer/base/check.h"
#include "tensor_tracer/comm/collectives.h"
#include "tensor_tracer/hf/adapter.h"
#include "tensor_tracer/model/gpt.h"
#include "tensor_tracer/protocol/json_members.h"

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
  if (!read) return read.error();
  source.adapter = std::move(read).value();
  source.adapter_folder = path;
  return hf::apply_adapter_config(source.adapter, source.folder.config, config.model);
}

namespace fs = std::filesystem;

// A folder that a run writes at its end, and the folder of the former run.
struct Output {
  const char* flag;
  const std::string& path;
  std::string before;  // as the former run of a resumed run wrote it; empty: none
};

fs::path whole(const std::string& path) {
  std::error_code error;
  const fs::path named = fs::weakly_canonical(fs::absolute(path), error);
  return named.has_filename() ? named : named.parent_path();
}

// True if `path` is the folder or lies in it.
bool holds(const std::string& folder, const std::string& path) {
  if (path.empty()) return false;
  const fs::path first = whole(folder), second = whole(path);
  return std::mismatch(first.begin(), first.end(), second.begin(), second.end()).first ==
         first.end();
}

// The folder is removed if it is replaced, so nothing else may be in it.
base::Status check_output(const Output& output, const config::TrainConfig& config) {
  if (output.path.empty()) return {};
  const config::CheckpointConfig& files = config.checkpoint;
  for (const std::string& other :
       {files.save, files.load, files.hf_model, files.load_adapter, config.run_dir,
        config.recording.record, config.export_tensors,
        output.path == files.save_hf ? files.save_adapter : files.save_hf})
    if (holds(output.path, other)) {
      return base::invalid_argument(output.flag,
                                    "\"" + output.path + "\" holds \"" + other + "\", too",
                                    "give a folder that nothing else uses");
    }
  std::error_code error;
  const bool is_new = !fs::exists(output.path, error) || fs::is_empty(output.path, error);
  if (!is_new && output.before != output.path)
    return base::invalid_argument(output.flag, "\"" + output.path + "\" is not empty",
                                  "give a new folder");
  const fs::path parent = whole(output.path).parent_path();
  fs::create_directories(parent, error);
  if (::access(parent.c_str(), W_OK) == 0) return {};
  return base::invalid_argument(output.flag, "\"" + parent.string() + "\" cannot be written",
                                "give another folder");
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

void share_saves(SavedModels& saves, const comm::ProcessGroup& world) {
  std::string packed;
  if (world.rank() == 0) {
    json::to_msgpack(json{saves.model.path, saves.model.config, saves.adapters.path,
                          saves.adapters.model_config},
                     packed);
  }
  comm::broadcast_text(world, packed, 0);
  if (world.rank() == 0) return;
  const json shared = json::from_msgpack(packed);
  saves.model = {shared.at(0), shared.at(1), "", "", false};
  saves.adapters = {shared.at(2), shared.at(3), {}, false};
}

base::Result<SavedModels> prepare_saves(const config::TrainConfig& config,
                                        const ModelSource& source, const json& former) {
  const config::CheckpointConfig& files = config.checkpoint;
  const Output model{"--save-hf", files.save_hf, protocol::text_of(former, "save-hf")};
  const Output adapters{"--save-adapter", files.save_adapter,
                        protocol::text_of(former, "save-adapter")};
  for (const Output& output : {model, adapters})
    if (auto status = check_output(output, config); !status) return status.error();
  SavedModels saved;
  if (files.save_hf.empty() && files.save_adapter.empty()) return saved;
  base::Result<json> made = source.folder.config;
  if (source.folder.config.is_null()) made = hf::make_config(config.model);
  if (!made) return made.error();
  const std::string& tokenizer = config.data.tokenizer;
  saved.model = {files.save_hf, made.value(), source.folder.path,
                 tokenizer == "byte" ? "" : tokenizer_folder(tokenizer).string(),
                 model.before == model.path};
  if (files.save_adapter.empty()) return saved;
  if (config.model.lora_rank == 0)
    return base::invalid_argument("--save-adapter", "the run has no adapters", "add --lora-rank 8");
  auto adapter = hf::make_adapter_config(made.value(), config.model, source.folder.path);
  if (!adapter) return adapter.error();
  saved.adapters = {files.save_adapter, made.value(), std::move(adapter).value(),
                    adapters.before == adapters.path};
  return saved;
}

}  // namespace tt::cli

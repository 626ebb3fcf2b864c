#include "src/cli/model_to_run.h"

#include <fmt/format.h>

#include <filesystem>
#include <limits>
#include <map>
#include <utility>

#include "src/cli/agreement.h"
#include "src/cli/saved_run.h"
#include "src/cli/shared_store.h"
#include "tensor_tracer/base/check.h"
#include "tensor_tracer/base/sha256.h"
#include "tensor_tracer/comm/collectives.h"
#include "tensor_tracer/config/saved_values.h"
#include "tensor_tracer/train/loaded_model.h"

namespace tt::cli {
namespace {

using nlohmann::json;
using Store = std::shared_ptr<const checkpoint::TensorStore>;

bool has_own_positions(const config::ModelConfig& model) {
  return model.position_embedding_type == "learned_absolute";
}

// The options that describe the model, by flag.
config::Options options_of_model(config::TrainConfig& config) {
  config::Options all = config::train_options(config);
  std::erase_if(all, [](const config::Option& option) {
    return option.group != "Model" && option.group != "Fine-tuning" &&
           option.flag != "--params-dtype";
  });
  return all;
}

base::Status read_options_of_checkpoint(ModelToRun& model, config::TrainConfig& config,
                                        const json& given) {
  auto path = read_model_path(config.checkpoint.load, "FOLDER");
  if (!path) return path.error();
  if (path.value().kind != ModelKind::kCheckpoint) {
    return base::invalid_argument("--load",
                                  "\"" + config.checkpoint.load + "\" holds no checkpoint",
                                  "give the folder of --save, or --hf-model FOLDER");
  }
  model.checkpoint = std::move(path).value();
  // The state of the optimizer is not read.
  std::erase_if(model.checkpoint.files,
                [](const std::string& file) { return !file.starts_with("model-"); });
  if (auto status = checkpoint::verify_files(model.checkpoint.folder, model.checkpoint.manifest);
      !status)
    return status;
  auto saved = options_of_checkpoint(model.checkpoint);
  if (!saved) return saved.error();
  config.model = std::move(saved.value().model);
  if (!given.contains("params-dtype")) config.params_dtype = saved.value().params_dtype;
  // The rows of the table do not follow --seq-length any more.
  if (has_own_positions(config.model))
    config.model.max_position_embeddings = config.model.max_positions();
  return {};
}

// A checkpoint names the tokenizer of its run.
base::Status read_tokenizer_of_checkpoint(ModelToRun& model, config::TrainConfig& config) {
  config::TrainConfig own;  // a tokenizer without --hf-model would set --vocab-size
  own.data.tokenizer = config.data.tokenizer;
  if (own.data.tokenizer.empty()) {
    std::string notice;
    own.data.tokenizer = tokenizer_folder_of(model.checkpoint, notice);
    if (!notice.empty()) return base::invalid_argument("--tokenizer", notice, "give the folder");
  }
  auto tokenizer = read_tokenizer(own, json::object());
  if (!tokenizer) return tokenizer.error();
  const std::int64_t ids = tokenizer.value().hash.empty() ? 256 : own.model.vocab_size;
  if (ids > config.model.vocab_size) {
    return base::invalid_argument(
        "--tokenizer",
        fmt::format("has {} ids, and the model {} rows", ids, config.model.vocab_size),
        "give the tokenizer of the model");
  }
  config.data.tokenizer = own.data.tokenizer;
  model.tokenizer = std::move(tokenizer).value();
  return {};
}

// `stores`: of the files of the model; null: none.
std::string fingerprint_of(const config::ModelConfig& options, const std::vector<Store>& stores) {
  std::map<std::string, std::string> prints;
  for (const Store& store : stores) {
    if (store == nullptr) continue;
    for (const auto& [path, print] : store->fingerprints())
      prints[std::filesystem::path(path).filename().string()] = print;
  }
  json described = config::to_json(options);
  described.erase("seq_length");
  return base::sha256_of(json{described, prints}.dump());
}

// Gives every rank the options of rank 0. Collective.
void share_options(config::TrainConfig& config, const comm::ProcessGroup& world) {
  std::string packed;
  if (world.rank() == 0) {
    json values = json::object();
    for (const config::Option& option : options_of_model(config))
      values[option.flag] = config::value_of(option);
    json::to_msgpack(values, packed);
  }
  comm::broadcast_text(world, packed, 0);
  if (world.rank() == 0) return;
  const auto status = config::set_values(options_of_model(config), json::from_msgpack(packed));
  TT_CHECK(status.ok(), "the options of rank 0 were refused");
}

// The files of the model and of its adapters. Collective.
base::Result<HfWeights> open_files(ModelToRun& model, const config::TrainConfig& config,
                                   const comm::ProcessGroup& world) {
  if (config.checkpoint.load.empty()) return open_hf_weights(model.source, config.model, world);
  auto store = open_shared_store(model.checkpoint.folder, model.checkpoint.files, world);
  if (!store) return store.error();
  const Store shared = std::move(store).value();
  return HfWeights{shared, config.model.lora_rank > 0 ? shared : nullptr, ""};
}

}  // namespace

base::Result<ModelToRun> read_model_to_run(config::TrainConfig& config, const json& given) {
  ModelToRun model;
  config.model.seq_length = 1;  // of any length, until it is known
  if (!config.checkpoint.load.empty()) {
    auto status = read_options_of_checkpoint(model, config, given);
    if (status) status = read_tokenizer_of_checkpoint(model, config);
    if (!status) return status.error();
    return model;
  }
  auto source = read_hf_model(config, given);
  if (!source) return source.error();
  model.source = std::move(source).value();
  auto tokenizer = read_tokenizer(config, given);
  if (!tokenizer) return tokenizer.error();
  model.tokenizer = std::move(tokenizer).value();
  if (!model.tokenizer.notice.empty()) model.notices.push_back(model.tokenizer.notice);
  return model;
}

std::int64_t most_tokens(const config::ModelConfig& model) {
  return has_own_positions(model) ? model.max_positions()
                                  : std::numeric_limits<std::int64_t>::max();
}

base::Status set_sequence_length(const ModelToRun& model, std::int64_t length,
                                 config::TrainConfig& config) {
  config.model.seq_length = length;
  if (model.source.folder.config.is_null()) return {};
  return hf::apply_config(model.source.folder.config, config.model);
}

base::Result<LoadedModel> load_model_to_run(ModelToRun& model, config::TrainConfig& config,
                                            const comm::ProcessGroup& tensor,
                                            const comm::ProcessGroup& world) {
  share_options(config, world);
  share_hf_model(model.source, config.model, world);
  const auto files = open_files(model, config, world);
  if (!files) return files.error();
  if (const std::string& notice = files.value().notice; !notice.empty())
    model.notices.push_back(notice);
  auto loaded = train::load_model(
      config, {files.value().weights.get(), files.value().adapters.get()}, tensor);
  const auto status = share_status(loaded ? base::Status() : base::Status(loaded.error()), world);
  if (!status) return status.error();
  return LoadedModel{std::move(loaded).value(),
                     fingerprint_of(config.model, {files.value().weights, files.value().adapters})};
}

}  // namespace tt::cli

#include "src/cli/saved_run.h"

#include <utility>

#include "src/cli/run_tokenizer.h"
#include "tensor_tracer/config/saved_values.h"
#include "tensor_tracer/protocol/json_members.h"

namespace tt::cli {
namespace {

using nlohmann::json;

base::Error bad_facts(const ModelPath& checkpoint, const std::string& message) {
  return checkpoint::damaged_checkpoint(checkpoint.folder + "/manifest.json", message);
}

std::string tokenizer_hash(const ModelPath& checkpoint) {
  return protocol::text_of(protocol::member(checkpoint.manifest.facts, "tokenizer"), "hash");
}

}  // namespace

base::Result<config::TrainConfig> options_of_checkpoint(const ModelPath& checkpoint) {
  const json& fixed = protocol::member(checkpoint.manifest.facts, "fixed");
  if (!fixed.is_object() || fixed.empty())
    return bad_facts(checkpoint, "the manifest names no options");
  config::TrainConfig config;
  if (auto status = config::set_values(config::train_options(config), fixed); !status)
    return bad_facts(checkpoint, to_string(status.error()));
  // The batch was that of another mesh, and any tokenizer is good for the model.
  config.global_batch_size = 0;
  config.data.tokenizer = checkpoint.folder;
  if (auto shape = config::check_unseen(config, 1); !shape)
    return bad_facts(checkpoint, to_string(shape.error()));
  config.data.tokenizer.clear();
  return config;
}

hf::ModelFolder first_model_of(const ModelPath& checkpoint, const config::ModelConfig& model) {
  const json& given = protocol::member(checkpoint.manifest.facts, "configuration");
  const std::string path = protocol::text_of(given, "hf-model");
  if (path.empty()) return {};
  auto folder = hf::read_model_folder(path);
  if (!folder) return {};
  config::ModelConfig read = model;
  const auto status = hf::apply_config(folder.value().config, read);
  if (!status || config::to_json(read) != config::to_json(model)) return {};
  return std::move(folder).value();
}

std::string tokenizer_folder_of(const ModelPath& checkpoint, std::string& notice) {
  const std::string hash = tokenizer_hash(checkpoint);
  if (hash.empty()) return "";
  const json& given = protocol::member(checkpoint.manifest.facts, "configuration");
  std::string path = protocol::text_of(given, "tokenizer");
  if (path.empty()) path = protocol::text_of(given, "hf-model");
  config::TrainConfig config;
  config.data.tokenizer = path;
  if (!path.empty()) {
    const auto read = read_tokenizer(config, json::object());
    if (read && read.value().hash == hash) return tokenizer_folder(path).string();
  }
  notice = "the tokenizer of the run is not at \"" + path +
           "\" any more, or has changed: copy its files to the folder";
  return "";
}

}  // namespace tt::cli

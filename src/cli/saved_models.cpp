#include "src/cli/saved_models.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "src/cli/output_folder.h"
#include "src/cli/run_tokenizer.h"
#include "tensor_tracer/comm/collectives.h"
#include "tensor_tracer/hf/adapter.h"
#include "tensor_tracer/hf/model.h"
#include "tensor_tracer/protocol/json_members.h"

namespace tt::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A folder that a run writes at its end, and the folder of the former run.
struct Output {
  const char* flag;
  const std::string& path;
  std::string before;  // as the former run of a resumed run wrote it; empty: none
};

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
  return prepare_parent(output.flag, output.path);
}

}  // namespace

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

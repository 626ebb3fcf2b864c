#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "src/cli/commands.h"
#include "src/cli/exit_code.h"
#include "src/cli/help_text.h"
#include "src/cli/hf_model.h"
#include "src/cli/model_path.h"
#include "src/cli/model_reader.h"
#include "src/cli/output_folder.h"
#include "src/cli/parse.h"
#include "src/cli/saved_run.h"
#include "tensor_tracer/base/size_text.h"
#include "tensor_tracer/dtypes/names.h"
#include "tensor_tracer/train/hf_writer.h"

namespace tt::cli {
namespace {

namespace fs = std::filesystem;
using checkpoint::TensorStore;
using nlohmann::json;

constexpr const char* kSuffix = ".safetensors";

struct ConvertOptions {
  std::string from, to;
  std::string dtype;           // empty: that of each tensor
  std::string adapter;         // empty: none
  std::uint64_t max_size = 0;  // of a file; 0: the default
  bool force = false;

  bool to_file() const { return to.ends_with(kSuffix); }
};

// What is written, and how.
struct Conversion {
  std::unique_ptr<ModelReader> reader;
  train::HfFolder folder = {};                       // of a folder
  std::map<std::string, std::string> metadata = {};  // of a single file
  std::string notice = {};                           // empty: none
};

base::Result<std::shared_ptr<const TensorStore>> open_store(const ModelPath& model) {
  auto store = TensorStore::open(model.folder, model.files);
  if (!store) return store.error();
  return std::make_shared<const TensorStore>(std::move(store).value());
}

// --- Checks of the target ------------------------------------------------------------------------

base::Error cannot_write(const ConvertOptions& options, const std::string& message,
                         const std::string& remedy) {
  return base::invalid_argument(options.to, message, remedy);
}

// A folder is removed when it is replaced, so it must be one of a model, and nothing else.
base::Status check_target(const ConvertOptions& options, const ModelPath& model) {
  std::error_code error;
  const fs::path to(options.to);
  const bool is_folder = fs::is_directory(to, error);
  const bool is_inside = holds(model.folder, options.to);
  for (const std::string& used : {model.folder, options.adapter})
    if (holds(options.to, used) || is_inside)
      return cannot_write(options,
                          (is_inside ? "lies in \"" : "holds \"") + used + "\", which is read",
                          "give another place");
  const bool is_there =
      is_folder && !options.to_file() ? !fs::is_empty(to, error) : fs::exists(to, error);
  if (!is_there) return prepare_parent(options.to, options.to);
  if (is_folder == options.to_file())
    return cannot_write(options, is_folder ? "is a folder" : "is a file", "give another name");
  if (!options.force) return cannot_write(options, "exists", "--force replaces it");
  if (is_folder && !fs::exists(to / "config.json", error))
    return cannot_write(options, "is not the folder of a model, so it is not replaced",
                        "give another folder");
  return prepare_parent(options.to, options.to);
}

// --- The model -----------------------------------------------------------------------------------

base::Status check_parameters(const TensorStore& store, const ModelPath& model,
                              const std::vector<nn::Parameter>& parameters) {
  for (const nn::Parameter& parameter : parameters) {
    if (store.shape_of(parameter.name) == parameter.full_shape) continue;
    return base::Error{"damaged",
                       "has no tensor " + parameter.name + " of the shape " +
                           json(parameter.full_shape).dump() + ", which its options need",
                       model.folder, "convert another checkpoint"};
  }
  return {};
}

std::map<std::string, std::string> metadata_of(const ModelPath& model,
                                               const config::ModelConfig& options) {
  return {{"format", "pt"},
          {"step", std::to_string(model.manifest.step)},
          {"config", config::to_json(options).dump()}};
}

base::Result<Conversion> from_checkpoint(const ConvertOptions& options, const ModelPath& model) {
  if (!options.adapter.empty())
    return base::invalid_argument("--adapter", "is for a folder of Hugging Face",
                                  "convert the checkpoint first");
  if (auto status = checkpoint::verify_files(model.folder, model.manifest); !status)
    return status.error();
  const auto saved = options_of_checkpoint(model);
  if (!saved) return saved.error();
  auto store = open_store(model);
  if (!store) return store.error();
  const config::ModelConfig& shape = saved.value().model;
  const auto parameters = model::describe_model(shape, 1).parameters();
  if (auto status = check_parameters(*store.value(), model, parameters); !status)
    return status.error();
  if (options.to_file()) {
    std::vector<std::string> names;
    for (const nn::Parameter& parameter : parameters) names.push_back(parameter.name);
    return Conversion{
        std::make_unique<StoredTensors>(store.value(), names), {}, metadata_of(model, shape)};
  }
  const hf::ModelFolder first = first_model_of(model, shape);
  base::Result<json> config = first.config;
  if (first.config.is_null()) config = hf::make_config(shape);
  if (!config) {
    return base::invalid_argument(model.folder, config.error().message,
                                  "give a name that ends with .safetensors");
  }
  Conversion made{std::make_unique<FamilyTensors>(config.value(), shape, store.value(), nullptr)};
  made.folder = {options.to, config.value(), first.path, tokenizer_folder_of(model, made.notice),
                 options.force};
  made.folder.config =
      train::with_dtype(std::move(made.folder.config), dtypes::named(saved.value().params_dtype));
  return made;
}

// The model with the adapters of --adapter added, if there are any. The shapes of all tensors are
// compared with config.json.
base::Result<Conversion> merged(const ConvertOptions& options) {
  config::TrainConfig config;
  config.checkpoint.hf_model = options.from;
  config.checkpoint.load_adapter = options.adapter;
  config.data.tokenizer = options.from;
  config.model.seq_length = 1;  // any; the model has no own
  auto source = read_hf_model(config, json::object());
  if (!source) return source.error();
  if (auto shape = config::check_unseen(config, 1); !shape) return shape.error();
  auto opened = open_hf_weights(source.value(), config.model, comm::ProcessGroup());
  if (!opened) return opened.error();
  Conversion made{std::make_unique<FamilyTensors>(source.value().folder.config, config.model,
                                                  opened.value().weights, opened.value().adapters)};
  made.notice = opened.value().notice;
  return made;
}

base::Result<Conversion> from_hugging_face(const ConvertOptions& options, const ModelPath& model) {
  const auto quantized = model.config.find("quantization_config");
  if (quantized != model.config.end() && !quantized->is_null())
    return base::invalid_argument("config.json: quantization_config",
                                  "weights that are quantized are not converted",
                                  "give a model that is not quantized");
  base::Result<Conversion> made = Conversion{};
  const bool is_whole = std::ranges::none_of(model.files, hf::is_shard);
  if (options.adapter.empty() && is_whole) {
    auto store = open_store(model);
    if (!store) return store.error();
    made = Conversion{std::make_unique<StoredTensors>(store.value(), store.value()->names())};
  } else {
    made = merged(options);
  }
  if (!made) return made;
  made.value().folder = {options.to, model.config, options.from, options.from, options.force};
  made.value().metadata = {{"format", "pt"}};
  return made;
}

base::Result<Conversion> prepare(const ConvertOptions& options) {
  const auto model = read_model_path(options.from, options.to);
  if (!model) return model.error();
  if (auto status = check_target(options, model.value()); !status) return status.error();
  switch (model.value().kind) {
    case ModelKind::kCheckpoint:
      return from_checkpoint(options, model.value());
    case ModelKind::kHuggingFace:
      return from_hugging_face(options, model.value());
    case ModelKind::kAdapter:
      return base::invalid_argument(
          options.from, "holds adapters, which belong to a model",
          "tensor-tracer convert MODEL " + options.to + " --adapter " + options.from);
    default:
      return base::invalid_argument(
          options.from, "is one file, without the configuration of a model", "give its folder");
  }
}

// --- Writing -------------------------------------------------------------------------------------

// Passes on tensors in the dtypes that are written.
class Caster {
 public:
  Caster(std::vector<checkpoint::TensorSpec> tensors, ModelReader::Sink sink)
      : tensors_(std::move(tensors)), sink_(std::move(sink)) {}

  // Error: a finite number becomes infinite.
  base::Status operator()(const at::Tensor& tensor) {
    const checkpoint::TensorSpec& spec = tensors_[next_++];
    const at::Tensor cast = tensor.to(spec.dtype);
    if (spec.dtype != tensor.scalar_type() && !at::isfinite(cast).equal(at::isfinite(tensor)))
      return base::invalid_argument("--dtype", spec.name + " has numbers that are too large for it",
                                    "give bfloat16 or float32");
    return sink_(cast);
  }

 private:
  const std::vector<checkpoint::TensorSpec> tensors_;
  const ModelReader::Sink sink_;
  std::size_t next_ = 0;
};

std::vector<checkpoint::TensorSpec> tensors_in(const ModelReader& reader,
                                               std::optional<at::ScalarType> dtype) {
  auto tensors = reader.tensors();
  for (checkpoint::TensorSpec& tensor : tensors)
    if (dtype && at::isFloatingType(tensor.dtype)) tensor.dtype = *dtype;
  return tensors;
}

base::Status write_file(const ConvertOptions& options, const Conversion& conversion,
                        const std::vector<checkpoint::TensorSpec>& tensors) {
  auto writer = checkpoint::SafetensorsWriter::create(options.to, tensors, conversion.metadata);
  if (!writer) return writer.error();
  const auto sink = [&](const at::Tensor& tensor) { return writer.value().add(tensor); };
  if (auto status = conversion.reader->read(Caster(tensors, sink)); !status) return status;
  const auto written = writer.value().finish();
  return written ? base::Status() : written.error();
}

base::Status write_folder(const ConvertOptions& options, const Conversion& conversion,
                          const std::vector<checkpoint::TensorSpec>& tensors) {
  train::HfFolder folder = conversion.folder;
  if (const auto dtype = dtypes::find(options.dtype))
    folder.config = train::with_dtype(std::move(folder.config), *dtype);
  train::HfWriter writer(std::move(folder), options.to);
  auto status = writer.begin(
      tensors, options.max_size > 0 ? options.max_size : checkpoint::ModelFiles::kMaxBytes);
  if (!status) return status;
  const auto sink = [&](const at::Tensor& tensor) { return writer.add(tensor); };
  if (status = conversion.reader->read(Caster(tensors, sink)); !status) return status;
  return writer.finish();
}

base::Status convert(const ConvertOptions& options) {
  if (options.to_file() && options.max_size > 0)
    return base::invalid_argument("--max-shard-size", "is for a folder", "leave it out");
  const auto conversion = prepare(options);
  if (!conversion) return conversion.error();
  const auto tensors = tensors_in(*conversion.value().reader, dtypes::find(options.dtype));
  if (tensors.empty())
    return base::invalid_argument(options.from, "holds no tensor", "give the files of a model");
  auto status = options.to_file() ? write_file(options, conversion.value(), tensors)
                                  : write_folder(options, conversion.value(), tensors);
  if (!status) return status;
  std::uint64_t bytes = 0;
  for (const checkpoint::TensorSpec& tensor : tensors) bytes += tensor.bytes();
  if (!conversion.value().notice.empty())
    fmt::print(stderr, "note   {}\n", conversion.value().notice);
  fmt::print("{}: {} tensors, {}\n", options.to, tensors.size(), base::size_text(bytes));
  return {};
}

}  // namespace

int run_convert(int argc, const char* const* argv) {
  ConvertOptions options;
  CLI::App app("Write a checkpoint or a model of Hugging Face in another form (docs/models.md).",
               "tensor-tracer convert");
  set_help_text(app);
  app.add_option("from", options.from, "a checkpoint, or a folder of Hugging Face")->required();
  app.add_option("to", options.to,
                 "a new folder of Hugging Face, or a new file that ends with .safetensors")
      ->required();
  app.add_option("--dtype", options.dtype,
                 "float32, float16 or bfloat16; by default the dtype of each tensor")
      ->check(CLI::IsMember({"float32", "float16", "bfloat16"}).description(""));
  app.add_option("--adapter", options.adapter, "add the adapters in this folder of PEFT");
  app.add_option("--max-shard-size", options.max_size,
                 "bytes of a file of weights, such as 2G; by default 4G")
      ->transform(CLI::AsSizeValue(false).description(""))
      ->type_name("SIZE");
  app.add_flag("--force", options.force, "replace the model or the file that is there");
  auto parsed = parse(app, argc, argv);
  if (!parsed) return fail(parsed.error());
  if (!parsed.value().empty()) {
    fmt::print("{}", parsed.value());
    return kExitDone;
  }
  const auto status = convert(options);
  return status ? kExitDone : report(status.error());
}

}  // namespace tt::cli

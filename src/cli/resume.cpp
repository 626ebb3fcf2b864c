#include "src/cli/resume.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "src/cli/shared_store.h"
#include "tensor_tracer/base/run_dir_lock.h"
#include "tensor_tracer/comm/collectives.h"
#include "tensor_tracer/hf/model.h"
#include "tensor_tracer/protocol/json_members.h"

namespace tt::cli {
namespace {

using config::TrainConfig;
using nlohmann::json;
using SharedStore = std::shared_ptr<const checkpoint::TensorStore>;

bool is_parameter(const json& one) {
  return protocol::member(one, "name").is_string() && !protocol::member(one, "value").is_null();
}

// As ResumePoint::programs() reads it.
bool is_program(const json& one) {
  const auto is_step = [&](const char* name) {
    const json& step = protocol::member(one, name);
    return step.is_null() || step.is_number_integer();
  };
  const json& keep = protocol::member(one, "keep");
  const json& parameters = protocol::member(one, "parameters");
  return protocol::member(one, "name").is_string() && (keep.is_null() || keep.is_boolean()) &&
         (parameters.is_null() ||
          (parameters.is_array() && std::ranges::all_of(parameters, is_parameter))) &&
         is_step("since") && is_step("until");
}

base::Result<ResumePoint> read_point(const std::string& path) {
  auto manifest = checkpoint::read_manifest(path);
  if (!manifest) return manifest.error();
  const json& programs = protocol::member(manifest.value().facts, "programs");
  if (!programs.is_null() && !(programs.is_array() && std::ranges::all_of(programs, is_program)))
    return checkpoint::damaged_checkpoint(path + "/manifest.json", "its programs are wrong");
  if (auto status = checkpoint::verify_files(path, manifest.value()); !status)
    return status.error();
  return ResumePoint{path, std::move(manifest).value()};
}

base::Result<ResumePoint> find_undamaged(const std::string& folder) {
  const std::vector<std::string> paths = checkpoint::find_checkpoints(folder);
  if (paths.empty()) {
    if (auto status = hf::refuse_distcp(folder); !status) return status.error();
    return base::Error{"not_found", "there is no checkpoint in \"" + folder + "\"", "--load",
                       "give the folder of --save; --hf-model begins from the weights of a model"};
  }
  std::vector<std::string> notices;
  std::optional<base::Error> first;
  for (const std::string& path : paths) {
    auto point = read_point(path);
    if (point) {
      point.value().notices = std::move(notices);
      return point;
    }
    if (!first) first = point.error();
    notices.push_back("a damaged checkpoint is passed over: " + to_string(point.error()));
  }
  return *first;
}

// With both dtypes the optimizer has float32 weights and moments.
bool may_change_to(const std::string& dtype, const json& before) {
  return dtype != "float64" && before != "float64";
}

// The first option, in the order of --help, in which the run must not differ from the checkpoint.
base::Status compare_fixed(TrainConfig config, const mesh::MeshShape& shape, const json& saved) {
  if (!saved.is_object())
    return base::Error{"damaged", "the manifest names no options", "--load",
                       "load another checkpoint"};
  const json now = config::fixed_values(config, shape.data);
  for (const config::Option& option : config::train_options(config)) {
    const json before = saved.value(option.flag, json());
    if (!option.is_fixed || before.is_null() || now[option.flag] == before) continue;
    if (option.flag == "--params-dtype" && may_change_to(config.params_dtype, before)) continue;
    return base::invalid_argument(
        option.flag,
        fmt::format("is {}, and the checkpoint has {}", config::text_of(now[option.flag]),
                    config::text_of(before)),
        "a resumed run keeps this option: give the value of the checkpoint");
  }
  return {};
}

base::Status compare_tokenizer(const RunTokenizer& tokenizer, const json& saved) {
  const auto shown = [](const std::string& hash) {
    return hash.empty() ? std::string("byte") : "a file with the hash " + hash;
  };
  const std::string before = protocol::text_of(saved, "hash");
  if (before == tokenizer.hash) return {};
  return base::invalid_argument(
      "--tokenizer",
      "is " + shown(tokenizer.hash) + ", and the checkpoint was made with " + shown(before),
      "give the same tokenizer");
}

base::Status compare(const TrainConfig& config, const mesh::MeshShape& shape,
                     const std::string& data, const RunTokenizer& tokenizer,
                     const ResumePoint& point) {
  const json& facts = point.manifest.facts;
  auto status = compare_fixed(config, shape, protocol::member(facts, "fixed"));
  if (status) status = compare_tokenizer(tokenizer, protocol::member(facts, "tokenizer"));
  if (!status) return status;
  const std::string before = protocol::text_of(facts, "data");
  if (before != data) {
    return base::invalid_argument("--data-path",
                                  "has " + data + ", and the checkpoint was made with " + before,
                                  "give the same text");
  }
  const bool writes_models =
      !config.checkpoint.save_hf.empty() || !config.checkpoint.save_adapter.empty();
  if (point.manifest.step < config.train_iters + (writes_models ? 1 : 0)) return {};
  return base::invalid_argument("--train-iters",
                                fmt::format("{} leaves no step after step {} of the checkpoint",
                                            config.train_iters, point.manifest.step),
                                "give more");
}

// The options of training that may change, by flag.
json free_values(TrainConfig config) {
  json values = json::object();
  for (const config::Option& option : config::train_options(config))
    if (!option.is_fixed && (option.group == "Training" || option.group == "Optimizer (AdamW)"))
      values[option.flag] = config::value_of(option);
  return values;
}

// `before`: of the checkpoint, by flag.
void note_changes(const json& now, const json& before, ResumePoint& point) {
  const auto shown = [](const json& value) {
    return value.is_null() ? "the default" : config::text_of(value);
  };
  if (!before.is_object()) return;
  for (const auto& [flag, value] : now.items()) {
    if (!before.contains(flag) || before[flag] == value) continue;
    point.notices.push_back(fmt::format("changed since the checkpoint: {} from {} to {}", flag,
                                        shown(before[flag]), shown(value)));
  }
}

// saved("x") reads the values of the step before.
void note_saved_values(ResumePoint& point) {
  for (const ProgramFile& program : point.programs().in_force)
    if (program.program.is_string() &&
        program.program.get_ref<const std::string&>().find("saved(") != std::string::npos)
      point.notices.push_back("program \"" + program.name +
                              "\" reads saved values, which a checkpoint does not hold");
}

std::vector<std::string> names_of(const std::vector<checkpoint::FileFacts>& files) {
  std::vector<std::string> names;
  for (const checkpoint::FileFacts& file : files) names.push_back(file.name);
  return names;
}

std::string launcher_words(const comm::Launch& launch) {
  if (launch.launcher == "torchrun")
    return fmt::format("torchrun --no-python --nproc-per-node {} ", launch.local_size);
  if (launch.launcher == "Slurm") return fmt::format("srun --mpi=pmix -n {} ", launch.world_size);
  if (launch.uses_mpi()) return fmt::format("mpirun -np {} ", launch.world_size);
  return "";
}

// A word of a POSIX shell.
std::string quoted(const std::string& word) {
  constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,@%+";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

bool is_left_out(const std::string& flag) {
  return flag == "--load" ||
         std::ranges::any_of(
             config::kPrivateOptions,
             [&](const char* name) { return flag == "--" + std::string(name); });
}

}  // namespace

std::string resume_command(const std::vector<std::string>& arguments, const comm::Launch& launch,
                           const std::string& folder) {
  std::string command = launcher_words(launch) + "tensor-tracer train";
  bool leaves_out = false;  // an option and its values
  for (const std::string& word : arguments) {
    if (word.starts_with("--")) leaves_out = is_left_out(word.substr(0, word.find('=')));
    if (!leaves_out) command += " " + quoted(word);
  }
  return command + " --load " + quoted(folder);
}

ResumedPlan ResumePoint::plan() const {
  return {protocol::member(manifest.facts, "plan"), protocol::member(manifest.facts, "plan_file")};
}

ResumedPrograms ResumePoint::programs() const {
  std::vector<ProgramFile> programs;
  for (const json& one : protocol::member(manifest.facts, "programs")) {
    ProgramFile program{.name = protocol::text_of(one, "name"),
                        .program = protocol::member(one, "text"),
                        .keep = protocol::member(one, "keep") != false};
    for (const json& parameter : protocol::member(one, "parameters"))
      program.parameters[parameter.at("name").get<std::string>()] = parameter.at("value");
    const json& since = protocol::member(one, "since");
    program.since = since.is_null() ? manifest.step + 1 : since.get<std::int64_t>();
    if (const json& until = protocol::member(one, "until"); !until.is_null())
      program.ttl = until.get<std::int64_t>() - *program.since + 1;
    programs.push_back(std::move(program));
  }
  return {std::move(programs), protocol::member(manifest.facts, "program_files")};
}

json ResumePoint::parent() const {
  const json run = protocol::member(manifest.facts, "run");
  return {{"id", protocol::text_of(run, "id")},
          {"name", protocol::text_of(run, "name")},
          {"step", manifest.step},
          {"checkpoint", std::filesystem::absolute(path).lexically_normal().string()}};
}

base::Result<ResumePoint> find_resume_point(const TrainConfig& config, const mesh::MeshShape& shape,
                                            const std::string& data,
                                            const RunTokenizer& tokenizer) {
  auto point = find_undamaged(config.checkpoint.load);
  if (!point) return point;
  if (auto status = compare(config, shape, data, tokenizer, point.value()); !status)
    return status.error();
  const json& facts = point.value().manifest.facts;
  note_changes(config::fixed_values(config, shape.data), protocol::member(facts, "fixed"),
               point.value());
  note_changes(free_values(config), protocol::member(facts, "free"), point.value());
  note_saved_values(point.value());
  return point;
}

base::Status lock_save_folder(const std::string& folder, base::ScopedFd& lock) {
  if (folder.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error || ::access(folder.c_str(), W_OK) != 0) {
    return base::invalid_argument(
        "--save", "\"" + folder + "\" is not a folder that can be written", "give another");
  }
  auto locked = base::lock_file(folder + "/checkpoints.lock", "--save");
  if (!locked) return locked.error();
  lock = std::move(locked).value();
  return {};
}

base::Status refuse_other_run(const config::CheckpointConfig& checkpoint,
                              const ResumePoint* resumed) {
  if (checkpoint.save.empty()) return {};
  const auto found = checkpoint::find_checkpoints(checkpoint.save);
  if (found.empty()) return {};
  std::error_code error;
  const auto same = [&](const std::filesystem::path& a, const std::filesystem::path& b) {
    return std::filesystem::equivalent(a, b, error);
  };
  if (same(found.front(), checkpoint.save)) {
    return base::invalid_argument("--save", "\"" + checkpoint.save + "\" is one checkpoint",
                                  "give the folder above it");
  }
  for (const std::string& path : found)
    if (resumed != nullptr && same(path, resumed->path)) return {};
  return base::invalid_argument(
      "--save", "\"" + checkpoint.save + "\" holds checkpoints of another run",
      "resume from it with --load " + checkpoint.save + ", or give another folder");
}

base::Result<SharedStore> open_state(ResumePoint& point, const comm::ProcessGroup& world) {
  auto store = open_shared_store(point.path, names_of(point.manifest.files), world);
  if (!store) return store.error();
  std::string packed;
  json::to_msgpack(point.manifest.step, packed);
  comm::broadcast_text(world, packed, 0);
  point.manifest.step = json::from_msgpack(packed);
  return SharedStore(std::move(store).value());
}

json checkpoint_facts(const TrainConfig& config, const mesh::MeshShape& shape,
                      const std::string& data, const json& run, const TracingSetup& tracing,
                      const InterventionSetup& intervention, const ResumePoint* resumed) {
  json facts = {{"fixed", config::fixed_values(config, shape.data)},
                {"free", free_values(config)},
                {"data", data}};
  for (const char* key : {"mesh", "model", "tokenizer", "configuration", "parent"})
    if (run.contains(key)) facts[key] = run[key];
  if (facts.contains("tokenizer")) facts["tokenizer"].erase("texts");
  facts["plan_file"] = tracing.plan_file;
  facts["program_files"] = intervention.files_read;
  if (resumed != nullptr) facts["plan"] = resumed->plan().in_force;
  facts["run"] = {{"id", run.value("id", "")}, {"name", run.value("name", "")}};
  return facts;
}

}  // namespace tt::cli

#include "src/cli/tracing_setup.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "tensor_tracer/base/check.h"
#include "tensor_tracer/base/nearest.h"
#include "tensor_tracer/base/private_file.h"
#include "tensor_tracer/checkpoint/vector_directory.h"
#include "tensor_tracer/checkpoint/vector_file.h"
#include "tensor_tracer/train/plan_context.h"

namespace tt::cli {
namespace {

constexpr std::size_t kMaxPlanBytes = std::size_t{16} << 20U;

base::Status read_prompt_sets(const config::TrainConfig& config, const RunTokenizer& tokenizer,
                              std::vector<data::PromptSet>& sets) {
  const data::PromptReader reader{.tokenize = tokenizer.for_prompts(),
                                  .seq_length = config.model.seq_length,
                                  .where = "--monitor-prompts"};
  for (const std::string& path : config.monitor.monitor_prompts) {
    auto set = reader.read_file(path);
    if (!set) return set.error();
    sets.push_back(std::move(set).value());
    if (auto status = data::check_prompt_sets(sets, reader.where); !status) return status;
  }
  return {};
}

base::Status open_vectors(const config::TrainConfig& config,
                          std::unique_ptr<trace::VectorLibrary>& vectors) {
  const std::string& path = config.tracer.tensor_tracer_vectors;
  if (path.empty()) return {};
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) {
    // A file that cannot be read has no names, and would be a run without vectors.
    if (const auto file = checkpoint::VectorFile::open(path); !file) return file.error();
  } else if (!std::filesystem::is_directory(path, error)) {
    return base::invalid_argument("--tensor-tracer-vectors",
                                  "\"" + path + "\" is not a folder or a file",
                                  "give the folder that holds the files, or one file");
  }
  vectors = std::make_unique<checkpoint::VectorDirectory>(path, config.model.num_layers,
                                                          config.model.hidden_size);
  return {};
}

std::string say_left_out(const trace::Plan& plan, const trace::PlanContext& context) {
  constexpr std::size_t kMaxToldNames = 32;
  if (context.vectors == nullptr) return {};
  const trace::FileContents watched = trace::contents_of(plan);
  std::string names;
  std::size_t count = 0;
  for (const std::string& name : context.vectors->names()) {
    if (watched.vectors.contains(name) || ++count > kMaxToldNames) continue;
    names += (names.empty() ? "" : ", ") + name;
  }
  if (count == 0) return {};
  if (count > kMaxToldNames) names += ", and " + std::to_string(count - kMaxToldNames) + " more";
  return "the default plan projects on the first " + std::to_string(watched.vectors.size()) +
         " vectors; left out: " + names;
}

base::Result<std::shared_ptr<const trace::Plan>> read_plan(const std::string& path,
                                                           const trace::PlanContext& context) {
  nlohmann::json text = trace::default_plan(context);
  if (!path.empty()) {
    const auto file = base::read_small_file(path, kMaxPlanBytes);
    if (!file) {
      return base::invalid_argument("--tensor-tracer-plan",
                                    "\"" + path + "\" " + file.error().message, "give a JSON file");
    }
    text = nlohmann::json::parse(file.value(), nullptr, false);
  }
  auto plan = trace::parse_plan(text, context, 1);
  if (!plan) {
    base::Error error = plan.error();
    error.where = path.empty() ? error.where : path + ": " + error.where;
    return error;
  }
  return std::make_shared<const trace::Plan>(std::move(plan).value());
}

// A plan of a checkpoint may name vectors and prompts that this run does not have.
void take_resumed_plan(const nlohmann::json& resumed, TracingSetup& setup) {
  if (resumed.is_null()) return;
  auto plan = trace::parse_plan(resumed, setup.context, 1);
  if (plan)
    setup.plan = std::make_shared<const trace::Plan>(std::move(plan).value());
  else
    setup.notice =
        "the plan of the checkpoint does not fit, and the plan of a new run is in force: " +
        to_string(plan.error());
}

base::Status check_recorded_points(const std::vector<std::string>& names,
                                   const points::PlaceTable& places) {
  std::vector<std::string> known;
  for (const points::Place& point : places.rows())
    if (point.traceable()) known.push_back(point.name);
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) != known.end()) continue;
    const std::string near = base::nearest_word(name, known);
    return base::invalid_argument(
        "--record-points", "there is no trace point \"" + name + "\"",
        near.empty() ? "tensor-tracer points lists them" : "did you mean " + near + "?");
  }
  return {};
}

}  // namespace

base::Result<TracingSetup> prepare_tracing(const config::TrainConfig& config,
                                           const mesh::MeshShape& shape,
                                           const RunTokenizer& tokenizer,
                                           const ResumedPlan* resumed) {
  TracingSetup setup;
  setup.token_texts = tokenizer.texts;
  if (auto status = read_prompt_sets(config, tokenizer, setup.prompts); !status)
    return status.error();
  if (auto status = open_vectors(config, setup.vectors); !status) return status.error();
  setup.context = train::make_plan_context(config, shape, setup.vectors.get(), setup.prompts);
  setup.passes = train::make_other_passes(config);
  auto status = check_recorded_points(config.recording.record_points, *setup.context.places);
  if (!status) return status.error();
  const std::string& plan_path = config.tracer.tensor_tracer_plan;
  if (!config.is_traced()) return setup;  // until a viewer sets a plan
  auto plan = read_plan(plan_path, setup.context);
  if (!plan) return plan.error();
  setup.plan = std::move(plan).value();
  if (!plan_path.empty()) setup.plan_file = trace::to_json(*setup.plan, setup.context);
  if (resumed != nullptr && (plan_path.empty() || setup.plan_file == resumed->file))
    take_resumed_plan(resumed->in_force, setup);
  else if (resumed != nullptr)
    setup.notice = "changed since the checkpoint: the plan of --tensor-tracer-plan";
  if (plan_path.empty() && setup.notice.empty())
    setup.notice = say_left_out(*setup.plan, setup.context);
  return setup;
}

TracingSetup receive_tracing(const config::TrainConfig& config, const mesh::MeshShape& shape,
                             const RunTokenizer& tokenizer, std::vector<data::PromptSet> prompts,
                             const nlohmann::json& plan, trace::FileContents contents) {
  TracingSetup setup;
  setup.token_texts = tokenizer.texts;
  setup.prompts = std::move(prompts);
  setup.context = train::make_plan_context(config, shape, nullptr, setup.prompts);
  setup.passes = train::make_other_passes(config);
  if (plan.is_null()) return setup;
  trace::ReceivedFiles files(std::move(contents));
  trace::PlanContext context = setup.context;
  context.vectors = &files;
  auto parsed = trace::parse_plan(plan, context, plan.at("number"));
  TT_CHECK(parsed.ok(), "the plan of rank 0 was refused");
  setup.plan = std::make_shared<const trace::Plan>(std::move(parsed).value());
  return setup;
}

void add_tracing_facts(const config::TrainConfig& config, const TracingSetup& tracing,
                       nlohmann::json& facts) {
  facts["points"] = tracing.context.places->to_json();
  facts["program_places"] = tracing.context.places->program_places();
  facts["plan"] =
      trace::to_json(tracing.plan != nullptr ? *tracing.plan : trace::Plan(), tracing.context);
  facts["prompt_sets"] = data::describe(tracing.prompts, config.monitor.monitor_interval);
  facts["vectors"] =
      tracing.vectors != nullptr ? tracing.vectors->names() : std::vector<std::string>();
}

}  // namespace tt::cli

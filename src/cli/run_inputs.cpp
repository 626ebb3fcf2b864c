#include "src/cli/run_inputs.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/cli/steering_programs.h"
#include "tensor_tracer/comm/collectives.h"
#include "tensor_tracer/trace/file_contents.h"

namespace tt::cli {
namespace {

using nlohmann::json;

json to_json(const base::Result<RunInputs>& read) {
  if (!read) {
    const base::Error& error = read.error();
    return {{"error", {error.code, error.message, error.where, error.remedy}}};
  }
  const TracingSetup& tracing = read.value().tracing;
  json plan;
  if (tracing.plan != nullptr) plan = trace::to_json(*tracing.plan, tracing.context);
  return {{"prompts", data::to_json(tracing.prompts)}, {"plan", std::move(plan)}};
}

}  // namespace

base::Result<RunInputs> read_inputs(const config::TrainConfig& config, const mesh::MeshShape& shape,
                                    const RunTokenizer& tokenizer, const ResumePoint* resumed) {
  std::optional<ResumedPlan> plan;
  std::optional<ResumedPrograms> programs;
  if (resumed != nullptr) {
    plan = resumed->plan();
    programs = resumed->programs();
  }
  config::TrainConfig run = config;
  if (auto status = take_steering_config(run); !status) return status.error();
  auto tracing = prepare_tracing(run, shape, tokenizer, plan ? &*plan : nullptr);
  if (!tracing) return tracing.error();
  auto intervention =
      prepare_interventions(run, shape, tracing.value(), programs ? &*programs : nullptr);
  if (!intervention) return intervention.error();
  return RunInputs{std::move(tracing).value(), std::move(intervention).value()};
}

base::Result<RunInputs> share_inputs(base::Result<RunInputs> read,
                                     const config::TrainConfig& config,
                                     const mesh::MeshShape& shape, const RunTokenizer& tokenizer,
                                     const comm::ProcessGroup& world) {
  const bool is_root = world.rank() == 0;
  std::string packed;
  if (is_root) json::to_msgpack(to_json(read), packed);
  comm::broadcast_text(world, packed, 0);
  const json message = json::from_msgpack(packed);
  if (const auto error = message.find("error"); error != message.end())
    return base::Error{error->at(0), error->at(1), error->at(2), error->at(3)};
  trace::FileContents contents;
  if (is_root && read.value().tracing.plan != nullptr)
    contents = trace::contents_of(*read.value().tracing.plan);
  trace::broadcast_contents(world, contents, 0);
  if (is_root) return read;
  RunInputs received;
  received.tracing =
      receive_tracing(config, shape, tokenizer, data::prompt_sets_of(message.at("prompts")),
                      message.at("plan"), std::move(contents));
  received.intervention.context = make_program_context(config, shape, received.tracing);
  return received;
}

}  // namespace tt::cli

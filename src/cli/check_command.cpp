#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <string>
#include <vector>

#include "src/cli/commands.h"
#include "src/cli/exit_code.h"
#include "src/cli/help_text.h"
#include "src/cli/hf_model.h"
#include "src/cli/intervention_setup.h"
#include "src/cli/options.h"
#include "src/cli/parse.h"
#include "src/cli/steering_programs.h"
#include "tensor_tracer/intervene/context.h"

namespace tt::cli {
namespace {

void print_summary(const std::string& name, const nlohmann::json& checked) {
  fmt::print("{}: right\n", name);
  for (const auto& write : checked["writes"]) {
    fmt::print("  writes {} ({})\n", write["place"].get<std::string>(),
               write["runs"].get<std::string>());
  }
  for (const auto& read : checked["reads"])
    fmt::print("  reads {}\n", read["place"].get<std::string>());
  for (const auto& save : checked["saves"]) fmt::print("  saves {}\n", save.get<std::string>());
  for (const auto& skip : checked["skips"]) fmt::print("  skips layer {}\n", skip.get<int>());
  for (const auto& parameter : checked["parameters"]) {
    fmt::print("  parameter {} = {}\n", parameter["name"].get<std::string>(),
               parameter["value"].dump());
  }
}

bool check_one(const std::string& name, const ProgramFile& program,
               const intervene::Context& context, bool as_json) {
  const auto checked = intervene::check_program(program.program, context);
  if (!checked) {
    fmt::print(stderr, "{}: {}\n", name, to_string(checked.error()));
    return false;
  }
  if (as_json)
    fmt::print("{}\n", checked.value().dump(2));
  else
    print_summary(name, checked.value());
  return true;
}

bool check_file(const std::string& path, const intervene::Context& context, bool as_json) {
  const auto file = read_program_file(path);
  if (!file) return fail(file.error()) == 0;
  return check_one(path, file.value(), context, as_json);
}

// The programs of --steer, --ablate and --cap, then the files.
int check_all(const InterventionSetup& setup, const std::vector<std::string>& paths, bool as_json) {
  int code = kExitDone;
  for (const ProgramFile& steering : setup.programs)
    if (!check_one(steering.name, steering, setup.context, as_json)) code = kExitUsage;
  for (const std::string& path : paths)
    if (!check_file(path, setup.context, as_json)) code = kExitUsage;
  return code;
}

}  // namespace

int run_check(int argc, const char* const* argv) {
  config::TrainConfig config;
  std::vector<std::string> paths;
  bool as_json = false;
  CLI::App app("Check whether programs (docs/intervention_graph.md) fit a run with these options.",
               "tensor-tracer check");
  set_help_text(app);
  add_configuration_file(app);
  add_options(app, config::train_options(config));
  app.add_option("files", paths,
                 "files of programs; the name of a program in JSON ends with .json");
  app.add_flag("--json", as_json,
               "print the answer of intervention.check as JSON (docs/protocol.md)")
      ->group("Output");
  auto parsed = parse(app, argc, argv);
  if (!parsed) return fail(parsed.error());
  if (!parsed.value().empty()) {
    fmt::print("{}", parsed.value());
    return 0;
  }
  if (paths.empty() && config.intervention.steering.is_empty())
    return fail(base::invalid_argument("files", "there is no program to check",
                                       "give files, --steer, --ablate or --cap"));
  // Checks on the smallest mesh that the configuration fits.
  if (auto model = read_hf_model(config, given_options(app)); !model) return fail(model.error());
  const auto tokenizer = read_tokenizer(config, given_options(app));
  if (!tokenizer) return fail(tokenizer.error());
  auto shape = config::check_unseen(config, config.tensor_model_parallel_size);
  if (!shape) return fail(shape.error());
  if (auto status = take_steering_config(config); !status) return fail(status.error());
  auto tracing = prepare_tracing(config, shape.value(), tokenizer.value(), nullptr);
  if (!tracing) return fail(tracing.error());
  config.intervention.interventions.clear();
  auto setup = prepare_interventions(config, shape.value(), tracing.value(), nullptr);
  if (!setup) return fail(setup.error());
  return check_all(setup.value(), paths, as_json);
}

}  // namespace tt::cli

#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "src/cli/exit_code.h"
#include "src/cli/help_text.h"
#include "src/cli/options.h"
#include "src/cli/parse.h"
#include "src/cli/rank_setup.h"
#include "tensor_tracer/comm/world.h"
#include "tensor_tracer/config/option.h"

namespace tt::cli {

/// The begin of a command that runs a model on several ranks, on each rank: finds the launcher,
/// parses the command line into `setup`, and checks the options. `Setup` has the members config,
/// options, launch and given. `read`: checks what is left, and reads the inputs on rank 0. Returns
/// the exit code if the command ends here: it has printed a help text or an error.
template <typename Setup, typename Read>
std::optional<int> begin_model_command(CLI::App& app, const config::Options& options, int argc,
                                       const char* const* argv, Setup& setup, const Read& read) {
  auto launch = comm::detect_launch(comm::process_environment());
  if (!launch) return refuse(launch.error(), 0);
  setup.launch = launch.value();
  const int rank = setup.launch.rank;
  set_help_text(app);
  add_configuration_file(app);
  add_options(app, options);
  auto parsed = parse(app, argc, argv);
  if (!parsed) return refuse(parsed.error(), rank);
  if (const std::string& text = parsed.value(); !text.empty()) {
    if (rank == 0) fmt::print("{}", text);
    return kExitDone;
  }
  setup.given = given_options(app);
  auto status = comm::check_backend(setup.launch, setup.config.distributed_backend);
  if (status) status = check(setup.config, setup.options);  // config::check of the command
  if (status) status = read(setup);
  if (!status) return refuse(status.error(), rank);
  return std::nullopt;
}

}  // namespace tt::cli

#include "src/cli/runs_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "src/cli/exit_code.h"
#include "src/cli/parse.h"
#include "tensor_tracer/base/printable.h"
#include "tensor_tracer/base/size_text.h"
#include "tensor_tracer/protocol/message.h"
#include "tensor_tracer/record/run_catalog.h"

namespace tt::cli {
namespace {

using base::printable;
using nlohmann::json;
using record::CatalogRun;

json to_json(const CatalogRun& run) {
  return {{"id", run.id},
          {"name", run.name},
          {"state", run.state},
          {"step", run.step},
          {"train_iters", run.train_iters},
          {"loss", run.loss ? json(*run.loss) : json()},
          {"bytes", run.bytes},
          {"kept", run.is_kept},
          {"start_time", run.start_time},
          {"recording", run.recording},
          {"run_dir", run.run_dir}};
}

void print(const CatalogRun& run, std::size_t name_width) {
  const std::string steps = run.train_iters > 0 ? fmt::format("{}/{}", run.step, run.train_iters)
                                                : std::to_string(run.step);
  const std::string loss = run.loss ? fmt::format("{:.4f}", *run.loss) : "-";
  const std::string elsewhere = run.is_elsewhere() ? "  " + printable(run.recording) : "";
  fmt::print("{:16}  {:{}}  {:8}  {:>15}  {:>8}  {:>8}  {:4}  {}{}\n", run.id, printable(run.name),
             name_width, run.state, steps, loss, base::size_text(run.bytes),
             run.is_kept ? "kept" : "", run.start_time, elsewhere);
}

}  // namespace

RunsCommand::RunsCommand(CLI::App& app)
    : command_(app.add_subcommand("runs", "List recorded runs; remove or protect runs")) {
  command_->add_option("--runs-dir", folder_, "folder of the run directories")
      ->capture_default_str();
  command_->add_flag("--json", as_json_, "print the list as JSON");
  command_->require_subcommand(0, 1);
  remove_ = command_->add_subcommand("remove", "Remove the recordings and directories of runs");
  remove_->add_option("id", ids_, "ids of runs, or their first characters")->required();
  remove_->add_flag("--kept", also_kept_, "also remove protected runs");
  keep_ = command_->add_subcommand("keep", "Protect runs from removal");
  keep_->add_option("id", ids_, "ids of runs, or their first characters")->required();
  for (CLI::App* const sub : {remove_, keep_}) sub->fallthrough();
}

int RunsCommand::run() const {
  if (!std::filesystem::is_directory(folder_)) {
    return report({.code = "usage",
                   .message = "there is no such folder",
                   .where = folder_,
                   .remedy = "go to the folder in which the runs were started, or add --runs-dir"});
  }
  if (remove_->parsed()) return remove();
  return keep_->parsed() ? keep() : list();
}

int RunsCommand::list() const {
  const std::vector<CatalogRun> runs = record::list_runs(folder_);
  if (as_json_) {
    json list = json::array();
    std::ranges::transform(runs, std::back_inserter(list), to_json);
    fmt::print("{}\n", protocol::encode_json(std::move(list)));
    return kExitDone;
  }
  std::size_t name_width = 4;
  std::uint64_t bytes = 0;
  for (const CatalogRun& run : runs) {
    name_width = std::max(name_width, run.name.size());
    bytes += run.bytes;
  }
  fmt::print("{:16}  {:{}}  {:8}  {:>15}  {:>8}  {:>8}  {:4}  {}\n", "ID", "NAME", name_width,
             "STATE", "STEP", "LOSS", "SIZE", "", "STARTED");
  for (const CatalogRun& run : runs) print(run, name_width);
  fmt::print("{} run{}, {}\n", runs.size(), runs.size() == 1 ? "" : "s", base::size_text(bytes));
  return kExitDone;
}

int RunsCommand::remove() const {
  for (const std::string& id : ids_) {
    const auto run = record::find_run(folder_, id);
    const base::Status done =
        run.ok() ? record::remove_run(run.value(), also_kept_) : base::Status(run.error());
    if (!done.ok()) return report(done.error());
    fmt::print("removed {} ({}), {}\n", run.value().id, printable(run.value().name),
               base::size_text(run.value().bytes));
  }
  return kExitDone;
}

int RunsCommand::keep() const {
  for (const std::string& id : ids_) {
    const auto run = record::find_run(folder_, id);
    const base::Status done = run.ok() ? record::keep_run(run.value()) : base::Status(run.error());
    if (!done.ok()) return report(done.error());
    fmt::print("kept {} ({})\n", run.value().id, printable(run.value().name));
  }
  return kExitDone;
}

}  // namespace tt::cli

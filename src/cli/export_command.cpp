#include "src/cli/export_command.h"

#include <cstdio>

#include "src/cli/exit_code.h"
#include "tensor_tracer/base/ranges.h"

namespace tt::cli {
namespace {

constexpr const char* kFooter = R"(
Arrays are named "HiddenStates.layers.3", their first dim is the record; "HiddenStates.layers.3.steps"
has the steps, "scalars.loss" the loss of each of "scalars.step".

  export run.ttrec --to npz --output run.npz --point HiddenStates --layers 1-4 --steps 10-200
  export run.ttrec --to csv --output loss.csv
  export run.ttrec --to tensorboard --output logs/demo && tensorboard --logdir logs)";

record::ExportFormat format_of(const std::string& name) {
  using record::ExportFormat;
  return name == "npz"           ? ExportFormat::kNpz
         : name == "safetensors" ? ExportFormat::kSafetensors
         : name == "csv"         ? ExportFormat::kCsv
                                 : ExportFormat::kTensorBoard;
}

base::Status set_ranges(const std::string& layers, const std::string& steps,
                        record::ExportOptions& options) {
  if (!layers.empty()) {
    options.layers = base::parse_numbers(layers);
    if (!options.layers) {
      return base::invalid_argument("--layers", "\"" + layers + "\" is not a list of layers",
                                    "give ranges such as 1-4,8");
    }
  }
  if (!steps.empty()) {
    const auto ranges = base::parse_ranges(steps);
    if (!ranges || ranges->size() != 1) {
      return base::invalid_argument("--steps", "\"" + steps + "\" is not a range of steps",
                                    "give one such as 10-200");
    }
    options.first_step = static_cast<std::uint64_t>(ranges->front().first);
    options.last_step = static_cast<std::uint64_t>(ranges->front().second);
  }
  return {};
}

int fail(const base::Error& error) {
  std::fprintf(stderr, "export: %s\n", base::to_string(error).c_str());
  return exit_code(error);
}

}  // namespace

ExportCommand::ExportCommand(CLI::App& app)
    : command_(app.add_subcommand("export",
                                  "Write a recording as NPZ, safetensors, CSV or "
                                  "TensorBoard events (docs/recording.md)")) {
  command_->add_option("file", file_, "a recording: DIR/run.ttrec")->required();
  command_->add_option("--to", to_, "the format")
      ->required()
      ->check(CLI::IsMember({"npz", "safetensors", "csv", "tensorboard"}));
  command_
      ->add_option("--output", options_.output,
                   "the file to write; of tensorboard the folder for one")
      ->required();
  command_
      ->add_option("--point", options_.points,
                   "only this point's records (may be repeated); csv: one value a line instead of "
                   "the scalars")
      ->allow_extra_args(false);
  command_->add_option("--layers", layers_, "only these layers, such as 1-4,8");
  command_->add_option("--steps", steps_, "only these steps, such as 10-200");
  command_->add_option("--run", options_.run, "the run's id, if the recording has several");
  command_->add_flag("--raw", options_.raw, "u8 as codes, with <name>.lines: offset and scale");
  command_->add_flag("--force", options_.force, "replace the output if it is there");
  command_->footer(kFooter);
}

int ExportCommand::run() {
  options_.format = format_of(to_);
  if (base::Status set = set_ranges(layers_, steps_, options_); !set.ok()) {
    return fail(set.error());
  }
  const auto report = record::export_recording(file_, options_);
  if (!report) {
    return fail(report.error());
  }
  std::printf("%s: %llu records, scalars of %llu steps\n", report.value().path.c_str(),
              static_cast<unsigned long long>(report.value().records),
              static_cast<unsigned long long>(report.value().steps));
  return 0;
}

}  // namespace tt::cli

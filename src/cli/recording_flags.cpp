#include "src/cli/recording_flags.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "tensor_tracer/base/ranges.h"
#include "tensor_tracer/record/recording.h"

namespace tt::cli {
namespace {

// A recording of another run is not touched.
std::string recording_path(const std::string& folder, const std::string& run_id) {
  const std::string path = folder + "/run.ttrec";
  if (!std::filesystem::exists(path)) {
    return path;
  }
  if (auto recording = record::Recording::open(path)) {
    for (const record::RunInfo& run : recording.value().runs()) {
      if (run.id == run_id) {
        return path;
      }
    }
  }
  return folder + "/run-" + run_id + ".ttrec";
}

}  // namespace

void add_recording_flags(CLI::App& command, RecordingFlags& flags) {
  command.add_option("--record", flags.record_dir,
                     "directory of the recording, run.ttrec (default: none, and history in a "
                     "temporary file)");
  command
      .add_option("--record-max-bytes", flags.record_max_bytes,
                  "of the recording, its oldest steps go first; 0: no bound")
      ->transform(CLI::AsSizeValue(false));
  command.add_option("--record-points", flags.record_points, "record these trace points only")
      ->delimiter(',');
  command.add_option("--record-layers", flags.record_layers,
                     "record these layers only, and points without layers: 1-4,8");
  command.add_option("--record-every", flags.record_every, "record steps that this divides")
      ->check(CLI::PositiveNumber);
  command
      .add_option("--history-bytes", flags.history_bytes,
                  "of the temporary file without --record; 0: no history")
      ->transform(CLI::AsSizeValue(false));
}

std::vector<std::string> words_of(const RecordingFlags& flags) {
  std::vector<std::string> words = {"--history-bytes",    std::to_string(flags.history_bytes),
                                    "--record-max-bytes", std::to_string(flags.record_max_bytes),
                                    "--record-every",     std::to_string(flags.record_every)};
  if (!flags.record_dir.empty()) {
    words.insert(words.end(), {"--record", flags.record_dir});
  }
  if (!flags.record_layers.empty()) {
    words.insert(words.end(), {"--record-layers", flags.record_layers});
  }
  for (const std::string& point : flags.record_points) {
    words.insert(words.end(), {"--record-points", point});
  }
  return words;
}

base::Status make_record_dir(const RecordingFlags& flags) {
  std::error_code failure;
  if (!flags.record_dir.empty()) {
    std::filesystem::create_directories(flags.record_dir, failure);
  }
  if (failure) {
    return base::Error{.code = "cannot_record",
                       .message = "a recording cannot be written here: " + failure.message(),
                       .where = flags.record_dir,
                       .remedy = "give another directory for --record"};
  }
  return {};
}

base::Result<std::optional<record::RecorderOptions>> recorder_options(const RecordingFlags& flags,
                                                                      const std::string& run_dir,
                                                                      const std::string& run_id) {
  record::RecorderOptions options;
  if (flags.record_dir.empty()) {
    options.path = run_dir + "/history.ttrec";
    options.max_bytes = flags.history_bytes;
    options.temporary = true;
    return flags.history_bytes == 0 ? std::nullopt : std::optional(std::move(options));
  }
  options.path = recording_path(flags.record_dir, run_id);
  options.max_bytes = flags.record_max_bytes;
  options.filter.every = flags.record_every;
  if (!flags.record_points.empty()) {
    options.filter.points.emplace(flags.record_points.begin(), flags.record_points.end());
  }
  if (!flags.record_layers.empty()) {
    options.filter.layers = base::parse_numbers(flags.record_layers);
    if (!options.filter.layers) {
      return base::Error{.code = "usage",
                         .message = "\"" + flags.record_layers + "\" is not a list of layers",
                         .where = "--record-layers",
                         .remedy = "give ranges such as 1-4,8"};
    }
  }
  return std::optional(std::move(options));
}

void add_replay_flags(CLI::App& command, hub::ReplayOptions& replay) {
  command.add_option("file", replay.path, "the recording, a .ttrec file")
      ->required()
      ->check(CLI::ExistingFile);
  command.add_option("--run", replay.run_id, "16 hex digits; default: the newest one in the file");
  command.add_option("--speed", replay.speed, "times the recorded pace")
      ->check(CLI::Range(0.1, 100.0));
  command.add_flag("--paused", replay.paused, "show the first step when asked to");
}

}  // namespace tt::cli

#include "src/cli/recorder_options.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "tensor_tracer/base/ranges.h"
#include "tensor_tracer/record/recording.h"

namespace tt::cli {
namespace {

// A recording of another run is never changed.
std::string recording_path(const std::string& folder, const std::string& run_id) {
  const std::string path = folder + "/run.ttrec";
  if (!std::filesystem::exists(path)) return path;
  if (auto recording = record::Recording::open(path)) {
    for (const record::RunInfo& run : recording.value().runs())
      if (run.id == run_id) return path;
  }
  return folder + "/run-" + run_id + ".ttrec";
}

}  // namespace

base::Status make_record_dir(const config::HubConfig& config) {
  const std::string& folder = config.recording.record;
  std::error_code failure;
  if (!folder.empty()) std::filesystem::create_directories(folder, failure);
  if (failure) {
    return base::Error{.code = "cannot_record",
                       .message = "a recording cannot be written here: " + failure.message(),
                       .where = folder,
                       .remedy = "give another directory for --record"};
  }
  return {};
}

record::RecorderOptions recorder_options(const config::HubConfig& config,
                                         const std::string& run_dir) {
  record::RecorderOptions options;
  const config::RecordingConfig& recording = config.recording;
  options.path =
      recording_path(recording.record.empty() ? run_dir : recording.record, config.run_id);
  options.max_bytes = recording.max_bytes();
  options.takes_traced = recording.takes_traced();
  options.keep = !recording.record.empty();
  options.filter.every = recording.record_every;
  if (!recording.record_points.empty())
    options.filter.points.emplace(recording.record_points.begin(), recording.record_points.end());
  if (!recording.record_layers.empty())
    options.filter.layers = base::parse_numbers(recording.record_layers);
  return options;
}

}  // namespace tt::cli

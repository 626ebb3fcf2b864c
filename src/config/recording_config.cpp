#include "tensor_tracer/config/recording_config.h"

#include "tensor_tracer/base/ranges.h"

namespace tt::config {
namespace {
constexpr double kLeastBytes = 1e6;
}  // namespace

Options recording_options(RecordingConfig& config) {
  const Check layers = text(
      "is not a list of layers such as 1-4,8",
      [](const std::string& list) { return list.empty() || base::parse_numbers(list); });
  const Check room = number("is neither 0 nor at least 1 MB",
                            [](double bytes) { return bytes == 0 || bytes >= kLeastBytes; });
  return in_group(
      "Recording",
      joined(
          {{{"--record", &config.record,
             "record all traced data, in this directory; default: the recording is run.ttrec in "
             "the "
             "run's directory, with a limit"},
            {"--record-max-bytes", Bytes{&config.record_max_bytes},
             "size limit of the recording, for example 10G; the oldest traced data is removed "
             "first; 0: no limit; default: no limit with --record, otherwise 256MB",
             room}},
           {{"--record-points", Commas{&config.record_points}, "record only these trace points"},
            {"--record-layers", &config.record_layers,
             "record only these layers (counted from 1), such as 1-4,8, and points without layers",
             layers},
            {"--record-every", &config.record_every,
             "record only the steps that are multiples of this number", positive()},
            {"--history", &config.history,
             "on or off: without --record, record traced data; on: also without a page; "
             "off: trace only what a viewer, an alarm or a prompt uses; default: on"}}}));
}

}  // namespace tt::config

#include "tensor_tracer/config/recording_config.h"

#include "tensor_tracer/base/ranges.h"

namespace tt::config {
namespace {
constexpr double kLeastBytes = 1e6;
}  // namespace

Options recording_options(RecordingConfig& config) {
  const Check layers = text("is not a list of layers such as 1-4,8", [](const std::string& list) {
    return list.empty() || base::parse_numbers(list);
  });
  const Check room = number("is neither 0 nor at least 1 MB",
                            [](double bytes) { return bytes == 0 || bytes >= kLeastBytes; });
  return in_group(
      "Recording",
      joined({{{"--record", &config.record,
                "directory for the recording, which then keeps all that is traced; without it the "
                "recording is run.ttrec in the run's folder"},
               {"--record-max-bytes", Bytes{&config.record_max_bytes},
                "of the recording, for example 10G; the oldest traced data goes first; 0: no "
                "limit; default: 256MB without --record, no limit with it",
                room}},
              needing(Needs::kAudience,
                      {{"--record-points", Commas{&config.record_points},
                        "record these trace points only"},
                       {"--record-layers", &config.record_layers,
                        "record these layers only, and points without layers: 1-4,8", layers},
                       {"--record-every", &config.record_every,
                        "record the steps that this divides", positive()},
                       {"--history", &config.history,
                        "on or off: record traced data without --record; off: trace only while a "
                        "viewer is connected; default: on"}})}));
}

}  // namespace tt::config

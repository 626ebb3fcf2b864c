#include "tensor_tracer/config/recording_config.h"

#include "tensor_tracer/base/ranges.h"

namespace tt::config {

Options recording_options(RecordingConfig& config) {
  const Check layers = text("is not a list of layers such as 1-4,8", [](const std::string& list) {
    return list.empty() || base::parse_numbers(list);
  });
  return in_group(
      "Recording",
      joined(
          {{{"--record", &config.record,
             "directory for the recording, run.ttrec, of all that is traced"}},
           needing(Needs::kRecording,
                   {{"--record-max-bytes", Bytes{&config.record_max_bytes},
                     "of the recording, for example 10G; its oldest steps go first; 0: no bound"},
                    {"--record-points", Commas{&config.record_points},
                     "record these trace points only"},
                    {"--record-layers", &config.record_layers,
                     "record these layers only, and points without layers: 1-4,8", layers},
                    {"--record-every", &config.record_every, "record the steps that this divides",
                     positive()}})}));
}

}  // namespace tt::config

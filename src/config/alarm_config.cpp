#include "tensor_tracer/config/alarm_config.h"

namespace tt::config {

Options alarm_options(AlarmConfig& config) {
  return in_group(
      "Alarms",
      {{"--alarms", &config.alarms, "JSON file with the first alarms (docs/alarms.md)"},
       {"--alarm-webhook", &config.alarm_webhook,
        "http address that gets a POST request when an alarm fires or is cleared"},
       {"--alarm-command", &config.alarm_command,
        "program with its arguments; it then runs with the alarm as JSON on standard input"},
       {"--alarm-pause-timeout", &config.alarm_pause_timeout,
        "seconds (1 to 604800) until a pause by an alarm ends", within(1, 604800)},
       {"--spike-recorder", &config.spike_recorder,
        "number of last steps that are kept in memory (at most 256 MB) and written to the "
        "run's directory when an alarm fires; 0: off",
        within(0, 100000)}});
}

}  // namespace tt::config

#include "tensor_tracer/config/alarm_config.h"

namespace tt::config {

Options alarm_options(AlarmConfig& config) {
  return in_group(
      "Alarms",
      needing(Needs::kAudience,
              {{"--alarms", &config.alarms,
                "JSON file of alarms (docs/alarms.md) that the run begins with"},
               {"--alarm-webhook", &config.alarm_webhook,
                "http address that gets a POST when an alarm fires or is cleared"},
               {"--alarm-command", &config.alarm_command,
                "program, with its arguments, that then runs with the alarm as JSON on its input"},
               {"--alarm-pause-timeout", &config.alarm_pause_timeout,
                "seconds (1 to 604800) after which a pause by an alarm ends", within(1, 604800)},
               {"--spike-recorder", &config.spike_recorder,
                "steps whose records are kept in memory, 256 MB at most, and written to the run's "
                "folder when an alarm fires; 0: off",
                within(0, 100000)}}));
}

}  // namespace tt::config

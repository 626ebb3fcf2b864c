#pragma once

#include <map>
#include <optional>
#include <string>

#include "src/hub/alarms/alarm.h"

/// alarms.json of the run directory: the alarms of a run, for a hub that is started again.
/// Thread: the hub's I/O thread only.
namespace tt::hub {

using Alarms = std::map<std::string, Alarm>;  // by name

struct SavedAlarms {
  Alarms alarms;
  /// The end of a pause that an alarm began, in milliseconds since 1970, UTC.
  std::optional<std::uint64_t> pause_end = {};
};

/// Replaces the file as a whole.
base::Status save_alarms(const std::string& path, const std::string& run_id, Alarms& alarms,
                         std::optional<std::uint64_t> pause_end);

/// Nothing if there is no file, or if it is of another run. Alarms that cannot be read are left
/// out.
std::optional<SavedAlarms> load_alarms(const std::string& path, const std::string& run_id);

}  // namespace tt::hub

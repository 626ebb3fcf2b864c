#pragma once

#include <string>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/protocol/request.h"

namespace tt::hub {

/// Checks that the members of an alarm fit together: docs/alarms.md. The error's code is
/// "invalid_argument", and `where` names the member. Thread: any.
base::Status check_alarm(const protocol::SetAlarm& alarm);

/// The compressor of the records that an alarm's curve is drawn from. REQUIRES: check_alarm() has
/// passed and the alarm has a point. Thread: any.
std::string compressor_of(const protocol::SetAlarm& alarm);

/// The curve of an alarm as people read it: "loss", "rms of HiddenStates". Thread: any.
std::string curve_name(const protocol::SetAlarm& alarm);

}  // namespace tt::hub

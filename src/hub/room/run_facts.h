#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/record/recording.h"

namespace tt::hub {

/// Checks a run's facts (docs/protocol.md, "The run's facts"): they must be an object, and a record
/// and a page must be able to hold their sizes. Members may be missing. The error's code is
/// "invalid_argument", and `where` names the member. Thread: any.
base::Status check_facts(const nlohmann::json& facts);

/// Converts an error of check_facts() for a run in the recording `path` into an error for the user.
/// The error's code is "damaged_recording". Thread: any.
base::Error damaged(const std::string& path, const record::RunInfo& run, const base::Error& why);

}  // namespace tt::hub

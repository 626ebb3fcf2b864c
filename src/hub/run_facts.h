#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/record/recording.h"

namespace tt::hub {

/// Whether a run's facts (docs/protocol.md, "The run's facts") are an object whose sizes a record
/// and a page can hold; members may be missing. The error's code is "invalid_argument", and `where`
/// names the member. Thread: any.
base::Status check_facts(const nlohmann::json& facts);

/// The refusal of check_facts() for a run in the recording `path`, as an error for the user. The
/// error's code is "damaged_recording". Thread: any.
base::Error damaged(const std::string& path, const record::RunInfo& run, const base::Error& why);

}  // namespace tt::hub

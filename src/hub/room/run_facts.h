#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/record/recording.h"

namespace tt::hub {

/// Checks a run's facts (docs/protocol.md, "The run's facts"): they must be an object, and a record
/// and a page must be able to hold their sizes. Members may be missing. The error's code is
/// "invalid_argument", and `where` names the member. Thread: any.
base::Status check_facts(const nlohmann::json& facts);

/// The numbers of points in one part's records, where they are not the run's: part's to run's.
using PointNumbers = std::map<std::uint16_t, std::uint16_t>;

/// Adds the points of a part of the run (a pipeline stage) to `facts`. A point that both have stays
/// one row, with the run's number and the layers of both. An error if a new point has a number that
/// is taken; `facts` may then have some of the points. REQUIRES: check_facts() has passed for both.
/// Thread: any.
base::Result<PointNumbers> add_points(nlohmann::json& facts, const nlohmann::json& points);

/// Converts an error of check_facts() for a run in the recording `path` into an error for the user.
/// The error's code is "damaged_recording". Thread: any.
base::Error damaged(const std::string& path, const record::RunInfo& run, const base::Error& why);

}  // namespace tt::hub

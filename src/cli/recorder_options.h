#pragma once

#include <string>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/config/hub_config.h"
#include "tensor_tracer/record/recorder.h"

namespace tt::cli {

/// Makes the directory of --record, if the option is given. The error names the directory and the
/// reason.
base::Status make_record_dir(const config::HubConfig& config);

/// The options for the recording of a run, in the directory of --record or in the run directory.
/// REQUIRES: the options of `config` are checked.
record::RecorderOptions recorder_options(const config::HubConfig& config,
                                         const std::string& run_dir);

}  // namespace tt::cli

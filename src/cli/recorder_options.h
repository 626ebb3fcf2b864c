#pragma once

#include <optional>
#include <string>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/config/hub_config.h"
#include "tensor_tracer/record/recorder.h"

namespace tt::cli {

/// Makes the directory of --record, if there is one. The error names the directory and the reason.
base::Status make_record_dir(const config::HubConfig& config);

/// The recording of a run; without --record the temporary file of its history; nothing where no
/// history is kept. REQUIRES: the options of `config` are checked.
std::optional<record::RecorderOptions> recorder_options(const config::HubConfig& config,
                                                        const std::string& run_dir);

}  // namespace tt::cli

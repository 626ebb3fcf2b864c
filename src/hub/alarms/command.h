#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"

namespace tt::hub {

/// Runs a program without a shell, with `input` on standard input, in its own session. Its output
/// is appended to the file `log`. At the time that `deadline` returns (it is asked again and again)
/// all processes of its group are ended. An error if it fails or is ended. `command`: the program's
/// path and its arguments. Thread: any; waits.
base::Status run_command(const std::vector<std::string>& command, const std::string& input,
                         const std::string& log,
                         const std::function<std::chrono::steady_clock::time_point()>& deadline);

}  // namespace tt::hub

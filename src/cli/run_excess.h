#pragma once

#include <string>

namespace tt::cli {

/// A hint if the runs in the folder of `run_dir` are large together; else empty. `run_dir`: of a
/// run that has not started; empty: the default folder.
std::string name_excess(const std::string& run_dir);

}  // namespace tt::cli

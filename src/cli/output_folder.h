#pragma once

#include <string>

#include "tensor_tracer/base/result.h"

namespace tt::cli {

/// True if `path` is the folder or lies in it. An empty path lies in no folder.
bool holds(const std::string& folder, const std::string& path);

/// Makes the folder above `path`. Error: files cannot be made there; `where` is `flag`.
base::Status prepare_parent(const std::string& flag, const std::string& path);

}  // namespace tt::cli

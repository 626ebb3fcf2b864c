#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/checkpoint/tensor_store.h"
#include "tensor_tracer/comm/process_group.h"

namespace tt::cli {

/// Opens the files that rank 0 names on every rank. `folder` and `files` of other ranks are
/// replaced by rank 0's. Error: a rank finds other files than rank 0 under the same path; the error
/// names the rank and the file, and is the same on all ranks. Collective over `world`.
base::Result<std::shared_ptr<checkpoint::TensorStore>> open_shared_store(
    std::string& folder, std::vector<std::string> files, const comm::ProcessGroup& world);

}  // namespace tt::cli

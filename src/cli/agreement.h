#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/config/train_config.h"

namespace tt::cli {

/// Checks that all ranks have the same options and the same text. Ranks that differ would train a
/// model that no command line describes, or wait for each other forever. `data`: the description of
/// the data, which has its size, its number of files, and a hash of samples. The error names the
/// flag, both values and the rank, and is the same on all ranks. Collective over `world`.
base::Status check_agreement(const config::TrainConfig& config, const std::string& data,
                             const comm::ProcessGroup& world);

/// Checks that every rank sees the same folder of --save. Rank 0 has made the folder. An empty name
/// means that the run has no such folder. The error is the same on all ranks. Collective over
/// `world`.
base::Status check_shared_folder(const std::string& folder, const comm::ProcessGroup& world);

/// Checks that all ranks were given the options of rank 0; `given`: as the user wrote them, by
/// name. The error is the same on all ranks. Collective over `world`.
base::Status check_same_options(const nlohmann::json& given, const comm::ProcessGroup& world);

/// The error of the lowest rank that has one, on every rank. Collective over `world`.
base::Status share_status(const base::Status& own, const comm::ProcessGroup& world);

}  // namespace tt::cli

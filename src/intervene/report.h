#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "src/intervene/active_program.h"
#include "tensor_tracer/comm/process_group.h"

/// Counts of programs, summed over ranks. All functions are collective over `tensor`, the tensor
/// axis, or `world`, all ranks.
namespace tt::intervene {

using ActivePrograms = std::vector<std::shared_ptr<ActiveProgram>>;

/// Joins the positions of the ranks' shards and adds them to the counts, if there are more than
/// `more_than` positions.
void join_touched(const ActivePrograms& programs, const comm::ProcessGroup& tensor,
                  std::int64_t more_than);

/// The notification "applied" of docs/protocol.md, on global rank 0; then the counts start again
/// from 0.
std::optional<nlohmann::json> report_counts(const ActivePrograms& in_force,
                                            const comm::ProcessGroup& tensor,
                                            const comm::ProcessGroup& world, std::int64_t step);

/// The notifications "saved" of every rank, on global rank 0.
std::vector<nlohmann::json> gather_saved(std::vector<nlohmann::json> own,
                                         const ActivePrograms& in_force,
                                         const comm::ProcessGroup& tensor,
                                         const comm::ProcessGroup& world);

/// The member "writes" of a preview's answer so far, on every rank.
nlohmann::json preview_writes(const std::shared_ptr<ActiveProgram>& preview,
                              const comm::ProcessGroup& tensor, const comm::ProcessGroup& world);

}  // namespace tt::intervene

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/intervene/context.h"
#include "tensor_tracer/trace/intervention_hooks.h"

namespace tt::intervene {

/// Limits in addition to the limits of graph and eval; each limit has a test.
inline constexpr std::size_t kMaxPrograms = 32;
/// kMaxElements: elements of one value of a program. kMaxCost: element operations of all lines of a
/// program in one forward.
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 31;
inline constexpr double kMaxCost = 1e11;
/// Bytes that the lines of a program may hold at one time. A program may hold kMaxLivePlaces times
/// the bytes of its largest place in addition, so it can always work on its inputs.
inline constexpr std::int64_t kMaxLiveBytes = std::int64_t{1} << 31;
inline constexpr std::int64_t kMaxLivePlaces = 4;
inline constexpr std::int64_t kMaxTriedElements = std::int64_t{1} << 24;  // eval::Limits, by line
inline constexpr std::int64_t kMaxSentNumbers = 65'536;
inline constexpr std::int64_t kMaxKeptNumbers = std::int64_t{1} << 24;  // a program's saved values
inline constexpr std::size_t kMaxSentOfStep = std::size_t{1}
                                              << 20;  // numbers of all saved values, per rank

/// Creates the hooks that run the programs of one rank. `tensor`: the tensor axis; all ranks call
/// its collectives and those of the model in the same order. `world`: all ranks, for report(),
/// take_saved() and preview_writes().
///
/// A program is compiled once for each shape of the forward; each value becomes an eval::Program. A
/// value is computed on this rank's shards if each operator is elementwise and correctly rounded
/// and all its inputs are sharded in the same way. Otherwise every rank computes it on gathered
/// logical tensors. A value is freed after its last user has run. Owner: the caller; the object
/// outlives its passes. Thread: as trace::InterventionHooks.
std::unique_ptr<trace::InterventionHooks> make_engine(Context context,
                                                      const comm::ProcessGroup& tensor,
                                                      const comm::ProcessGroup& world);

}  // namespace tt::intervene

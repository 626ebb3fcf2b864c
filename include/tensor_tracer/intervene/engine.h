#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tensor_tracer/comm/process_group.h"
#include "tensor_tracer/intervene/context.h"
#include "tensor_tracer/trace/intervention_hooks.h"

namespace tt::intervene {

/// Limits besides those of graph and eval; each has a test.
inline constexpr std::size_t kMaxPrograms = 32;
/// Elements of any value of a program, and element operations of all its lines in one forward.
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 31;
inline constexpr double kMaxCost = 1e11;
/// Bytes that the lines of a program hold at one time, besides a few times the largest place that
/// it names: this much a program may always make of its inputs.
inline constexpr std::int64_t kMaxLiveBytes = std::int64_t{1} << 31;
inline constexpr std::int64_t kMaxLivePlaces = 4;
inline constexpr std::int64_t kMaxTriedElements = std::int64_t{1} << 24;  // eval::Limits, by line
inline constexpr std::int64_t kMaxSentNumbers = 65'536;
inline constexpr std::int64_t kMaxKeptNumbers = std::int64_t{1} << 24;  // of one program's saves
inline constexpr std::size_t kMaxSentOfStep = std::size_t{1}
                                              << 20;  // numbers of all saves, by rank

/// The programs of one rank. `tensor`: along the tensor axis, in step with the model's own
/// collectives. `world`: all ranks, for report(), take_saved() and preview_writes().
///
/// A program is compiled for the shape of a forward once: each value is an eval::Program. It runs
/// on this rank's shards where every operator rounds exactly and acts on each number alone and all
/// tensors it meets are sharded alike, otherwise on gathered logical tensors by every rank. A value
/// is freed when its last user has run. Owner: the caller; it outlives its passes. Thread: as
/// trace::InterventionHooks.
std::unique_ptr<trace::InterventionHooks> make_engine(Context context,
                                                      const comm::ProcessGroup& tensor,
                                                      const comm::ProcessGroup& world);

}  // namespace tt::intervene

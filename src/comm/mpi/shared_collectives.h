#pragma once

#include "src/comm/mpi/shared_segment.h"
#include "src/comm/reduce.h"

// Collectives over shared memory, in chunks of the size of a slot. Sums run in rank order, so that
// every rank has the same bits.
namespace tt::comm::detail {

void shared_all_reduce(SharedSegment& segment, void* data, Elements elements, ReduceOp op);
void shared_reduce_scatter(SharedSegment& segment, const void* input, void* output,
                           Elements elements, ReduceOp op);
void shared_all_gather(SharedSegment& segment, const void* input, void* output, std::size_t bytes);
void shared_broadcast(SharedSegment& segment, void* data, std::size_t bytes, int root);

}  // namespace tt::comm::detail

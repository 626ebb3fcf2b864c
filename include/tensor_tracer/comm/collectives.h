#pragma once

#include <string>

#include "tensor_tracer/comm/process_group.h"

/// Collectives of values that are not tensors.
namespace tt::comm {

/// Broadcasts the root's text to every rank. The text may have any bytes; its size is sent first.
void broadcast_text(const ProcessGroup& group, std::string& text, int root);

/// The sum of all ranks' numbers, with the same bits on every rank.
double sum_over(const ProcessGroup& group, double value);

/// True if every rank passes true.
bool all_of(const ProcessGroup& group, bool own);

}  // namespace tt::comm

#pragma once

#include <string>

#include "tensor_tracer/comm/process_group.h"

/// Collectives of values that are no tensors.
namespace tt::comm {

/// Gives every rank the root's text, of any bytes; its size travels first.
void broadcast_text(const ProcessGroup& group, std::string& text, int root);

/// The sum of every rank's number, with the same bits on every rank.
double sum_over(const ProcessGroup& group, double value);

/// Whether every rank says true.
bool all_of(const ProcessGroup& group, bool own);

}  // namespace tt::comm

#pragma once

#include <string>

#include "tensor_tracer/comm/process_group.h"

namespace tt::comm {

/// Gives every rank the root's text, of any bytes; its size travels first. Collective.
void broadcast_text(const ProcessGroup& group, std::string& text, int root);

}  // namespace tt::comm

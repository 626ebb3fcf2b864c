#pragma once

#include "src/comm/c10d/group.h"
#include "tensor_tracer/comm/launcher.h"

namespace tt::comm::c10d {

/// Makes gloo groups whose ranks find each other in the job's store. Throws c10::Error if the store
/// does not answer.
MakeBackends gloo_groups(const Launch& launch);

}  // namespace tt::comm::c10d

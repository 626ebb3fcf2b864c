#pragma once

#include <memory>

#include "src/comm/group_impl.h"
#include "src/comm/local/team.h"

namespace tt::comm::detail {

/// The group `team`, as an object for rank `rank`; supports CPU tensors.
std::shared_ptr<GroupImpl> make_local_group(std::shared_ptr<LocalTeam> team, int rank);

}  // namespace tt::comm::detail

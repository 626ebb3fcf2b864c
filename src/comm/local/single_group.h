#pragma once

#include <memory>

#include "src/comm/group_impl.h"

namespace tt::comm::detail {

/// The group of one rank. It only copies, if input and output differ. Supports every device.
std::shared_ptr<GroupImpl> make_single_group();

}  // namespace tt::comm::detail

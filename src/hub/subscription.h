#pragma once

#include <nlohmann/json.hpp>

#include "send_queue.h"
#include "tensor_tracer/base/result.h"

namespace tt::hub {

/// What the params of a `subscribe` request ask for; `facts` are those of the run, whose points
/// it may name. Thread: any.
base::Result<Subscription> parse_subscription(const nlohmann::json& params,
                                              const nlohmann::json& facts);

}  // namespace tt::hub

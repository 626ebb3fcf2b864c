#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "src/hub/send_queue.h"
#include "tensor_tracer/base/result.h"
#include "tensor_tracer/protocol/request.h"

namespace tt::hub {

/// What a request asks for; `facts` are those of the run, whose points it may name. Thread: any.
base::Result<Subscription> parse_subscription(const protocol::Subscribe& request,
                                              const nlohmann::json& facts);

/// The flag of the trace point of this name in a run's facts; nothing if there is none. Both come
/// from outside and may be anything. Thread: any.
std::optional<std::uint16_t> flag_of_point(const nlohmann::json& facts, const nlohmann::json& name);

}  // namespace tt::hub

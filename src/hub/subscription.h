#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "src/hub/send_queue.h"
#include "tensor_tracer/base/result.h"
#include "tensor_tracer/protocol/request.h"

namespace tt::hub {

/// The subscription of a request. `facts` are the run's facts; the request may name their points.
/// Thread: any.
base::Result<Subscription> parse_subscription(const protocol::Subscribe& request,
                                              const nlohmann::json& facts);

/// Returns the flag of the trace point with this name in a run's facts. Returns nothing if the
/// facts have no point with this name. Both arguments come from outside and may have any content.
/// Thread: any.
std::optional<std::uint16_t> flag_of_point(const nlohmann::json& facts, const nlohmann::json& name);

}  // namespace tt::hub

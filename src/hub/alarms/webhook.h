#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/hub/alarms.h"

namespace tt::hub {

/// POSTs `body` as JSON. An error if the answer is not a success, or does not come before the time
/// that `deadline` returns; it is asked again while the call waits.
/// Thread: any; waits.
base::Status post_webhook(const WebhookUrl& url, const std::string& body,
                          const std::function<std::chrono::steady_clock::time_point()>& deadline);

}  // namespace tt::hub

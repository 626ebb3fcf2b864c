#pragma once

#include <string>
#include <string_view>

#include "net.h"
#include "tensor_tracer/record/recorder.h"
#include "tensor_tracer/record/recording.h"

/// The HTTP half of docs/protocol.md, "History". Thread: any.
namespace tt::hub {

/// True for the paths that answer_history knows.
bool is_history(std::string_view path);

/// The answer to GET of such a path.
HttpResponse answer_history(const HttpRequest& request, record::Recording& recording,
                            const record::RecorderCounters& counters);

}  // namespace tt::hub

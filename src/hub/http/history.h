#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "src/hub/http/other_runs.h"
#include "src/hub/socket/net.h"
#include "tensor_tracer/record/recorder.h"
#include "tensor_tracer/record/recording.h"

/// The HTTP half of docs/protocol.md, "History". Thread: any.
namespace tt::hub {

/// True for the paths that answer_history knows.
bool is_history(std::string_view path);

/// The id of the run in the request; nothing: the newest run.
std::optional<std::string> run_asked_for(const HttpRequest& request);

/// The answer to GET /history/runs.
HttpResponse answer_runs(const HttpRequest& request, const OtherRuns& others);

/// The answer to GET of the other paths, from the recording that holds the run.
HttpResponse answer_history(const HttpRequest& request, record::Recording& recording,
                            const record::RecorderCounters& counters);

}  // namespace tt::hub

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
HttpResponse answer_runs(const HttpRequest& request, OtherRuns& others);

/// The answer to GET of the other paths, from the recording that holds the run.
HttpResponse answer_history(const HttpRequest& request, record::Recording& recording,
                            const record::RecorderCounters& counters);

/// The same for any path. A run that `recording` does not hold is read from the recording of
/// `others` that holds it.
HttpResponse answer_any_run(const HttpRequest& request, record::Recording& recording,
                            const record::RecorderCounters& counters, OtherRuns& others);

}  // namespace tt::hub

#include "src/hub/http/other_runs.h"

#include <algorithm>
#include <utility>

#include "src/hub/room/run_facts.h"
#include "tensor_tracer/protocol/json_members.h"

namespace tt::hub {
namespace {

// The facts have the plan that was in force when the trainer connected. The newest steps belong to
// the last plan.
std::vector<record::RunInfo> runs_with_last_plans(record::Recording& recording) {
  std::vector<record::RunInfo> runs = recording.runs();
  for (record::RunInfo& run : runs) {
    const std::vector<record::TrainerEvent> events = recording.trainer_events(run.run);
    const auto last =
        std::ranges::find(events.rbegin(), events.rend(), "plan", &record::TrainerEvent::kind);
    const nlohmann::json detail =
        last == events.rend() ? nlohmann::json() : recording.event_detail(last->id);
    const nlohmann::json& plan = protocol::member(detail, "plan");
    if (run.facts.is_object() && !plan.is_null()) {
      run.facts["plan"] = plan;
    }
  }
  return runs;
}

}  // namespace

base::Status OtherRuns::open(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    auto recording = record::Recording::open(path);
    if (!recording) {
      return recording.error();
    }
    std::vector<record::RunInfo> runs = runs_with_last_plans(recording.value());
    for (const record::RunInfo& run : runs) {
      if (base::Status known = check_facts(run.facts); !known.ok()) {
        return damaged(path, run, known.error());
      }
    }
    files_.push_back({std::move(runs), std::make_unique<record::QueryThread>(path)});
  }
  return {};
}

record::QueryThread* OtherRuns::find(std::string_view run_id) const {
  const auto found = std::ranges::find_if(files_, [&](const File& file) {
    return std::ranges::find(file.runs, run_id, &record::RunInfo::id) != file.runs.end();
  });
  return found == files_.end() ? nullptr : found->reader.get();
}

nlohmann::json OtherRuns::describe() const {
  nlohmann::json runs = nlohmann::json::array();
  for (const File& file : files_) {
    for (const record::RunInfo& run : file.runs) {
      runs.push_back({{"id", run.id},
                      {"name", run.facts.is_object() ? run.facts.value("name", run.id) : run.id},
                      {"facts", run.facts},
                      {"first_step", run.first_step},
                      {"last_step", run.last_step}});
    }
  }
  return {{"runs", std::move(runs)}};
}

}  // namespace tt::hub

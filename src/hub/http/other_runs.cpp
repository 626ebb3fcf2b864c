#include "src/hub/http/other_runs.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "src/hub/room/run_facts.h"
#include "tensor_tracer/protocol/json_members.h"
#include "tensor_tracer/record/run_catalog.h"

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
    if (run.facts.is_object() && !plan.is_null()) run.facts["plan"] = plan;
  }
  return runs;
}

constexpr std::size_t kMaxOfFolder = 20;

nlohmann::json to_json(const record::RunInfo& run) {
  return {{"id", run.id},
          {"name", run.facts.is_object() ? run.facts.value("name", run.id) : run.id},
          {"facts", run.facts},
          {"first_step", run.first_step},
          {"last_step", run.last_step}};
}

// Nothing if the file cannot be read now, or if the run's facts are damaged.
std::optional<nlohmann::json> to_json(const record::CatalogRun& listed) {
  auto recording = record::Recording::open(listed.recording);
  if (!recording) return std::nullopt;
  for (const record::RunInfo& run : runs_with_last_plans(recording.value())) {
    if (run.id == listed.id && check_facts(run.facts).ok()) {
      nlohmann::json one = to_json(run);
      one["state"] = listed.state;
      one["bytes"] = listed.bytes;
      one["kept"] = listed.is_kept;
      one["recording"] = listed.recording;
      if (!listed.url.empty()) one["url"] = listed.url;
      if (listed.loss) one["loss"] = *listed.loss;
      return one;
    }
  }
  return std::nullopt;
}

}  // namespace

void OtherRuns::offer_folder(std::string folder, std::string own_run) {
  folder_ = std::move(folder);
  own_run_ = std::move(own_run);
}

base::Status OtherRuns::open(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    auto recording = record::Recording::open(path);
    if (!recording) return recording.error();
    std::vector<record::RunInfo> runs = runs_with_last_plans(recording.value());
    for (const record::RunInfo& run : runs)
      if (base::Status known = check_facts(run.facts); !known.ok())
        return damaged(path, run, known.error());
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

std::string OtherRuns::path_of(const std::string& run_id) {
  if (folder_.empty() || run_id == own_run_) return "";
  const std::lock_guard lock(mutex_);
  if (const auto known = paths_.find(run_id); known != paths_.end()) return known->second;
  for (const record::CatalogRun& run : record::list_runs(folder_)) paths_[run.id] = run.recording;
  const auto found = paths_.find(run_id);
  return found == paths_.end() ? "" : found->second;
}

nlohmann::json OtherRuns::describe() {
  nlohmann::json runs = nlohmann::json::array();
  for (const File& file : files_) {
    std::ranges::transform(
        file.runs, std::back_inserter(runs),
        [](const record::RunInfo& run) { return to_json(run); });
  }
  if (!folder_.empty()) describe_folder(runs);
  return {{"runs", std::move(runs)}};
}

void OtherRuns::describe_folder(nlohmann::json& runs) {
  std::vector<record::CatalogRun> listed = record::list_runs(folder_);
  std::ranges::reverse(listed);
  std::size_t count = 0;
  for (const record::CatalogRun& run : listed) {
    const bool is_there = std::ranges::any_of(
        runs, [&](const nlohmann::json& one) { return one.at("id") == run.id; });
    if (run.id == own_run_ || is_there || count == kMaxOfFolder) continue;
    if (auto one = to_json(run)) {
      runs.push_back(std::move(*one));
      ++count;
    }
  }
}

}  // namespace tt::hub

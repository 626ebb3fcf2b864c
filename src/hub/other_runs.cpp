#include "other_runs.h"

#include <algorithm>
#include <utility>

namespace tt::hub {

base::Status OtherRuns::open(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    auto recording = record::Recording::open(path);
    if (!recording) {
      return recording.error();
    }
    files_.push_back({recording.value().runs(), std::make_unique<record::QueryThread>(path)});
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

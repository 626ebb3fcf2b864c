#include "tensor_tracer/record/run_catalog.h"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Exception.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "src/record/schema.h"
#include "tensor_tracer/base/private_file.h"
#include "tensor_tracer/base/run_dir_lock.h"
#include "tensor_tracer/protocol/json_members.h"
#include "tensor_tracer/protocol/message.h"
#include "tensor_tracer/record/recording.h"

namespace tt::record {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using protocol::text_of;

constexpr std::array<const char*, 4> kSuffixes = {"", "-journal", "-wal", "-shm"};
constexpr std::array<const char*, 11> kRunFiles = {
    "alarms.json", "alarm_command.log", "baselines.json", "hub.json",     "hub.log",     "lock",
    "open.html",   "run.json",          "token",          "viewer_token", "worker_token"};

json read_json(const fs::path& path) {
  const auto text = base::read_small_file(path.string());
  const auto object = text.ok() ? protocol::parse_json(text.value()) : text.error();
  return object.ok() ? object.value() : json::object();
}

// The spike recorder's files beside it hold steps of the same run.
bool is_recording(std::string_view name) {
  return name.starts_with("run") && name.ends_with(".ttrec");
}

bool is_spike(std::string_view name) {
  return name.starts_with("spike-") && name.ends_with(".ttrec");
}

// Folders: the flight records of a run that failed, and the states of its ranks.
bool is_of_watchdog(std::string_view name) {
  return name == ".watchdog" || name == "flight-record" || name.starts_with("flight-record-");
}

std::vector<fs::path> files_in(const fs::path& folder, bool (*is_wanted)(std::string_view name)) {
  std::vector<fs::path> found;
  std::error_code unreadable;
  for (const auto& file : fs::directory_iterator(folder, unreadable))
    if (is_wanted(file.path().filename().string()) && file.is_regular_file(unreadable))
      found.push_back(file.path());
  return found;
}

std::vector<fs::path> recordings_in(const fs::path& folder) {
  return files_in(folder, is_recording);
}

std::uint64_t bytes_of(const fs::path& recording) {
  std::uint64_t sum = 0;
  for (const char* suffix : kSuffixes) {
    std::error_code absent;
    const std::uintmax_t bytes = fs::file_size(recording.string() + suffix, absent);
    sum += absent ? 0 : bytes;
  }
  return sum;
}

std::uint64_t spike_bytes_in(const fs::path& folder) {
  std::uint64_t sum = 0;
  for (const fs::path& file : files_in(folder, is_spike)) sum += bytes_of(file);
  return sum;
}

struct RunDirectory {
  fs::path path;
  std::string run_id;  // of the last run that used it
  std::string url;     // of that run's hub
  bool is_in_use = false;
};

std::string state_of(const CatalogRun& run, const std::string& phase) {
  if (phase == "finished" || phase == "stopped" || phase == "lost") return phase;
  return run.is_in_use ? "running" : "lost";
}

// The file's runs; of a file without runs, or of a file that is locked, the directory's last run.
std::vector<CatalogRun> runs_in(const fs::path& file, const RunDirectory& directory) {
  CatalogRun about;
  about.id = about.name = directory.run_id;
  about.recording = file.string();
  about.run_dir = directory.path.string();
  about.bytes = bytes_of(file);
  about.is_in_use = directory.is_in_use;
  about.state = state_of(about, "");
  auto opened = Recording::open(file.string());
  if (!opened.ok()) {
    return opened.error().code == "recording_in_use" ? std::vector{about}
                                                     : std::vector<CatalogRun>();
  }
  Recording& recording = opened.value();
  about.is_kept = recording.is_kept();
  std::vector<CatalogRun> runs;
  for (const RunInfo& info : recording.runs()) {
    CatalogRun run = about;
    run.id = info.id;
    run.name = text_of(info.facts, "name");
    run.start_time = text_of(info.facts, "start_time");
    run.train_iters = protocol::natural(info.facts, "train_iters").value_or(0);
    run.step = info.last_step;
    run.loss = recording.last_scalar(info.run, "loss");
    run.is_in_use = directory.is_in_use && info.id == directory.run_id;
    run.url = run.is_in_use ? directory.url : "";
    run.state = state_of(run, recording.last_phase(info.run));
    runs.push_back(std::move(run));
    about.bytes = 0;  // counted once
  }
  return runs.empty() && !about.id.empty() ? std::vector{about} : runs;
}

// The recording of --record, which another folder holds.
fs::path recording_elsewhere(const json& settings, const std::string& run_id) {
  const fs::path folder = text_of(settings, "record");
  if (folder.empty()) return {};
  fs::path own = folder / ("run-" + run_id + ".ttrec");
  return fs::exists(own) ? own : folder / "run.ttrec";
}

std::vector<CatalogRun> runs_of_directory(const fs::path& path) {
  const json settings = read_json(path / "run.json");
  const json hub = read_json(path / "hub.json");
  RunDirectory directory;
  directory.path = path;
  directory.run_id = text_of(settings, "run_id");
  if (directory.run_id.empty()) directory.run_id = text_of(hub, "run_id");
  directory.url = text_of(hub, "url");
  directory.is_in_use = base::is_run_dir_locked(path.string());
  std::vector<CatalogRun> runs;
  for (const fs::path& file : recordings_in(path))
    std::ranges::move(runs_in(file, directory), std::back_inserter(runs));
  const fs::path elsewhere = recording_elsewhere(settings, directory.run_id);
  std::error_code absent;
  if (!elsewhere.empty() && !fs::equivalent(elsewhere.parent_path(), path, absent)) {
    for (CatalogRun& run : runs_in(elsewhere, directory))
      if (run.id == directory.run_id) runs.push_back(std::move(run));
  }
  if (!runs.empty()) {
    const auto last = std::ranges::find(runs, directory.run_id, &CatalogRun::id);
    (last == runs.end() ? runs.front() : *last).bytes += spike_bytes_in(path);
  }
  return runs;
}

void remove_run_files(const fs::path& run_dir) {
  std::error_code ignored;
  for (const char* name : kRunFiles) fs::remove(run_dir / name, ignored);
  for (const fs::path& file : files_in(run_dir, is_spike)) fs::remove(file, ignored);
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(run_dir, unreadable))
    if (is_of_watchdog(entry.path().filename().string())) fs::remove_all(entry.path(), ignored);
}

base::Error failed(const std::string& path, const std::string& why) {
  return {.code = "io_error", .message = why, .where = path};
}

}  // namespace

bool CatalogRun::is_elsewhere() const {
  std::error_code absent;
  return !fs::equivalent(fs::path(recording).parent_path(), run_dir, absent);
}

std::vector<CatalogRun> list_runs(const std::string& folder) {
  std::vector<CatalogRun> runs;
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(folder, unreadable))
    if (entry.is_directory(unreadable))
      std::ranges::move(runs_of_directory(entry.path()), std::back_inserter(runs));
  std::ranges::sort(runs, {},
                    [](const CatalogRun& run) { return std::pair(run.start_time, run.id); });
  return runs;
}

base::Result<CatalogRun> find_run(const std::string& folder, const std::string& id) {
  std::vector<CatalogRun> found;
  for (CatalogRun& run : list_runs(folder)) {
    if (run.id == id) return std::move(run);
    if (!id.empty() && run.id.starts_with(id)) found.push_back(std::move(run));
  }
  if (found.size() == 1) return std::move(found.front());
  return base::Error{
      .code = "no_run",
      .message = found.empty() ? "there is no run " + id : "several runs have ids like " + id,
      .where = folder,
      .remedy = "`tensor-tracer runs` lists the ids; --runs-dir names another folder"};
}

base::Status keep_run(const CatalogRun& run) {
  if (run.is_kept) return {};
  try {
    SQLite::Database database(run.recording, SQLite::OPEN_READWRITE, kBusyMilliseconds);
    if (base::Status known = check_schema(database); !known.ok()) return known;
    mark_as_kept(database, kKeptRun);
  } catch (const SQLite::Exception& error) {
    return failed(run.recording, std::string("cannot be marked as kept: ") + error.what());
  }
  return {};
}

base::Status remove_run(const CatalogRun& run, bool also_kept) {
  if (run.is_in_use) {
    return base::Error{.code = "run_in_use",
                       .message = "run " + run.id + " is running, or its hub still is",
                       .where = run.run_dir,
                       .remedy = "stop it first"};
  }
  if (run.is_kept && !also_kept) {
    return base::Error{.code = "run_kept",
                       .message = "run " + run.id + " is kept",
                       .where = run.recording,
                       .remedy = "add --kept to remove it all the same"};
  }
  // No run begins in the directory while its files are removed.
  const auto lock = base::lock_run_dir(run.run_dir);
  std::error_code failure;
  fs::remove(run.recording, failure);
  if (failure) return failed(run.recording, "cannot be removed: " + failure.message());
  std::error_code ignored;
  for (const char* suffix : kSuffixes) fs::remove(run.recording + suffix, ignored);
  if (lock.ok() && recordings_in(run.run_dir).empty()) {
    remove_run_files(run.run_dir);
    fs::remove(run.run_dir, ignored);  // an empty directory only
  }
  return {};
}

Excess find_excess(const std::string& folder, std::uint64_t max_bytes, std::size_t limit) {
  Excess excess;
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(folder, unreadable)) {
    for (const fs::path& file : recordings_in(entry.path())) excess.bytes += bytes_of(file);
    excess.bytes += spike_bytes_in(entry.path());
  }
  if (excess.bytes <= max_bytes) return {};
  std::vector<CatalogRun> runs = list_runs(folder);
  std::erase_if(runs, [](const CatalogRun& run) { return run.is_kept || run.is_in_use; });
  // The sort is stable, so of two runs of one size the older is first.
  std::ranges::stable_sort(runs, std::greater(), &CatalogRun::bytes);
  std::uint64_t left = excess.bytes;
  for (CatalogRun& run : runs) {
    if (left <= max_bytes || excess.runs.size() == limit) break;
    left -= std::min(left, run.bytes);
    excess.runs.push_back(std::move(run));
  }
  return excess;
}

}  // namespace tt::record

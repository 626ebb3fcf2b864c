#include "tensor_tracer/watchdog/flight_record.h"

#include <c10/core/ScalarType.h>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <system_error>

#include "tensor_tracer/base/private_file.h"
#include "tensor_tracer/base/thread_stacks.h"

namespace tt::watchdog {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kLogLines = 1000;

// UTC with milliseconds, of a time on the steady clock.
std::string time_text(std::int64_t steady) {
  const auto ago = std::chrono::nanoseconds(comm::steady_ns() - steady);
  const auto time = std::chrono::time_point_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now() - ago);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03d}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(time)),
                     time.time_since_epoch().count() % 1000);
}

json to_json(const comm::CollectiveCall& call, const std::vector<comm::RecordedGroup>& groups) {
  const comm::RecordedGroup& group = groups[call.group];
  json form = {
      {"number", call.number},
      {"group", group.path},
      {"sequence", call.sequence},
      {"operation", call.operation},
      {"bytes", call.bytes},
      {"step", call.step},
      {"begin", time_text(call.begin_ns)},
      {"dtype", call.dtype < 0 ? "bytes" : c10::toString(static_cast<c10::ScalarType>(call.dtype))},
      {"ms", nullptr}};
  if (call.end_ns > 0) form["ms"] = static_cast<double>(call.end_ns - call.begin_ns) * 1e-6;
  if (call.peer >= 0) form["peer"] = group.ranks[static_cast<std::size_t>(call.peer)];
  return form;
}

json collectives(const comm::CollectiveLog& log, const Alarm& alarm) {
  json form = json::parse(to_json_text(read_state(log)));
  for (const char* unused : {"beat", "noticed", "recorded", "calls"}) form.erase(unused);
  form["time"] = time_text(comm::steady_ns());
  form["reason"] = alarm.reason;
  form["found_by_rank"] = alarm.reporter;
  form["groups"] = json::array();
  const std::vector<comm::RecordedGroup> groups = log.groups();
  for (const comm::RecordedGroup& group : groups)
    form["groups"].push_back({{"name", group.name},
                              {"path", group.path},
                              {"ranks", group.ranks},
                              {"calls", group.calls}});
  form["collectives"] = json::array();
  for (const comm::CollectiveCall& call : log.calls())
    form["collectives"].push_back(to_json(call, groups));
  return form;
}

json to_json(const RankStates& states) {
  json form = json::array();
  for (const auto& state : states)
    form.push_back(state ? json::parse(to_json_text(*state)) : json());
  return form;
}

std::string dump(const json& form) {
  return form.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string last_lines(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::system_error(errno, std::generic_category(), path);
  std::deque<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(std::move(line));
    if (lines.size() > kLogLines) lines.pop_front();
  }
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace

std::string flight_record_folder(const std::string& run_dir) {
  const std::string first = run_dir + "/flight-record";
  std::string name = first;
  std::error_code unreadable;
  for (int number = 2; fs::exists(name, unreadable); ++number)
    name = first + "-" + std::to_string(number);
  return name;
}

std::vector<std::string> write_flight_record(const FlightRecord& record,
                                             const comm::CollectiveLog& log) {
  std::vector<std::string> failures;
  const std::string mine = fmt::format("rank-{:05d}-", log.rank());
  const auto write = [&](const std::string& name, const std::function<std::string()>& text) {
    try {
      const auto written = base::write_private_file(record.folder + "/" + name, text());
      if (!written) failures.push_back(to_string(written.error()));
    } catch (const std::exception& error) {
      failures.push_back(name + ": " + error.what());
    }
  };
  std::error_code failure;
  fs::create_directories(record.folder, failure);
  if (failure) return {record.folder + " cannot be made: " + failure.message()};
  fs::permissions(record.folder, fs::perms::owner_all, failure);
  write(
      mine + "collectives.json", [&] { return dump(collectives(log, record.alarm)); });
  write(
      mine + "stacks.txt", [] { return base::thread_stacks(); });
  write(mine + "configuration.json", [&] { return dump(record.configuration); });
  if (!record.log_lines.empty()) write(mine + "log.txt", [&] { return record.log_lines; });
  if (!record.states.empty()) write("ranks.json", [&] { return dump(to_json(record.states)); });
  if (!record.hub_log.empty()) write("hub.log", [&] { return last_lines(record.hub_log); });
  return failures;
}

}  // namespace tt::watchdog

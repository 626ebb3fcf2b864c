#include "src/hub/http/history.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "src/hub/fanout/subscription.h"
#include "src/hub/http/http_answers.h"
#include "src/hub/http/query.h"
#include "tensor_tracer/base/ranges.h"
#include "tensor_tracer/protocol/message.h"

namespace tt::hub {
namespace {

using nlohmann::json;

constexpr std::size_t kDefaultBytes = std::size_t{4} << 20U;
constexpr std::size_t kMaxBytes = std::size_t{64} << 20U;
constexpr std::size_t kMaxEventBytes = std::size_t{16} << 20U;
constexpr std::size_t kDefaultRows = 2000;
constexpr std::size_t kMaxRows = 100'000;

/// Reads a query's members one by one and keeps the first error.
class Members {
 public:
  explicit Members(std::string_view target) : members_(parse_query(target)) {
    members_.erase("token");
  }

  std::optional<std::string> text(const char* name) {
    auto node = members_.extract(name);
    return node.empty() ? std::nullopt : std::optional(std::move(node.mapped()));
  }

  template <typename Number>
  Number number(const char* name, Number otherwise, Number most) {
    const auto value = text(name);
    if (!value) return otherwise;
    Number number{};
    const auto [end, code] = std::from_chars(value->data(), value->data() + value->size(), number);
    if (code != std::errc() || end != value->data() + value->size() || number > most)
      refuse(std::string(name) + " must be a number from 0 to " + std::to_string(most));
    return number;
  }

  std::optional<std::set<std::uint16_t>> layers() {
    const auto value = text("layers");
    if (!value) return std::nullopt;
    auto layers = base::parse_numbers(*value);
    if (!layers) refuse("layers must be ranges such as 1-4,8");
    return layers;
  }

  // Parses "12.3456": step and id.
  record::Cursor cursor() {
    const auto value = text("after");
    record::Cursor cursor;
    if (!value) return cursor;
    const char* const end = value->data() + value->size();
    const auto [dot, code] = std::from_chars(value->data(), end, cursor.step);
    const bool has_dot = code == std::errc() && dot != end && *dot == '.';
    if (!has_dot ||
        std::from_chars(dot + 1, end, cursor.id) != std::from_chars_result{end, std::errc()})
      refuse("after must be what TT-Next said");
    return cursor;
  }

  void refuse(std::string why) {
    if (!wrong_) wrong_ = std::move(why);
  }

  /// The reason why the query cannot be answered. A member that was not read is unknown.
  std::optional<std::string> wrong() {
    if (!wrong_ && !members_.empty())
      wrong_ = members_.begin()->first.substr(0, 64) + " is not known here";
    return wrong_;
  }

 private:
  std::map<std::string, std::string> members_;
  std::optional<std::string> wrong_;
};

HttpResponse json_answer(const HttpRequest& request, const json& value) {
  return make_answer(request, http::status::ok, "application/json", protocol::encode_json(value));
}

json describe(const record::RunInfo& run, record::Recording& recording) {
  return {{"run", run.id},
          {"first_step", run.first_step},
          {"last_step", run.last_step},
          {"first_frame_step", run.first_frame_step},
          {"frames", recording.count_frames(run.run)}};
}

HttpResponse answer_summary(const HttpRequest& request, Members& query,
                            record::Recording& recording, const std::vector<record::RunInfo>& runs,
                            const record::RunInfo* run, const record::RecorderCounters& counters) {
  if (const auto wrong = query.wrong()) return refusal(request, http::status::bad_request, *wrong);
  json summary = run != nullptr ? describe(*run, recording) : json{{"run", nullptr}, {"frames", 0}};
  summary["runs"] = json::array();
  for (const record::RunInfo& one : runs) summary["runs"].push_back(describe(one, recording));
  summary["bytes"] = recording.used_bytes();
  summary["max_bytes"] = counters.max_bytes;
  summary["dropped"] = counters.dropped;
  summary["dropped_lines"] = counters.dropped_lines;
  summary["stopped"] = counters.stopped;
  return json_answer(request, summary);
}

HttpResponse answer_steps(const HttpRequest& request, Members& query, record::Recording& recording,
                          const record::RunInfo& run) {
  const auto first = query.number<std::uint64_t>("first", 0, INT64_MAX);
  const auto last = query.number<std::uint64_t>("last", INT64_MAX, INT64_MAX);
  const auto limit = query.number<std::size_t>("limit", kDefaultRows, kMaxRows);
  if (const auto wrong = query.wrong()) return refusal(request, http::status::bad_request, *wrong);
  json steps = json::array();
  for (record::StepRow& row : recording.steps(run.run, first, last, limit))
    steps.push_back(std::move(row.params));
  return json_answer(request, steps);
}

HttpResponse answer_events(const HttpRequest& request, Members& query,
                           record::Recording& recording) {
  const record::EventQuery wanted{
      .after = query.number<std::int64_t>("after", 0, INT64_MAX),
      .limit = query.number<std::size_t>("limit", kDefaultRows, kMaxRows),
      .max_bytes = kMaxEventBytes,
      .kind = query.text("kind")};
  if (const auto wrong = query.wrong()) return refusal(request, http::status::bad_request, *wrong);
  json events = json::array();
  for (auto& [id, event] : recording.events(wanted)) {
    events.push_back({{"id", id},
                      {"run", record::run_id(event.run)},
                      {"time_ns", event.time_ns},
                      {"step", event.step},
                      {"kind", event.kind},
                      {"session", event.session},
                      {"who", event.who},
                      {"detail", std::move(event.detail)}});
  }
  return json_answer(request, events);
}

record::FrameQuery frame_query(Members& query, const record::RunInfo& run) {
  record::FrameQuery frames;
  frames.run = run.run;
  frames.first_step = query.number<std::uint64_t>("first", 0, INT64_MAX);
  frames.last_step = query.number<std::uint64_t>("last", INT64_MAX, INT64_MAX);
  frames.layers = query.layers();
  frames.after = query.cursor();
  if (const auto point = query.text("point")) {
    frames.point = flag_of_point(run.facts, *point);
    if (!frames.point) query.refuse("the run has no trace point " + point->substr(0, 64));
  }
  constexpr std::uint64_t kNoEntry = std::numeric_limits<std::uint64_t>::max();
  const auto entry = query.number<std::uint64_t>("entry", kNoEntry, UINT32_MAX);
  if (entry != kNoEntry) frames.entry = static_cast<std::uint32_t>(entry);
  return frames;
}

HttpResponse answer_records(const HttpRequest& request, Members& query,
                            record::Recording& recording, const record::RunInfo& run) {
  const record::FrameQuery frames = frame_query(query, run);
  const auto limit = query.number<std::size_t>("limit", kDefaultBytes, kMaxBytes);
  if (const auto wrong = query.wrong()) return refusal(request, http::status::bad_request, *wrong);
  std::string body;
  record::Cursor last;
  std::uint64_t count = 0;
  bool more = false;
  recording.frames(frames, [&](const record::Frame& frame) {
    more = count > 0 && body.size() + frame.record.size() > limit;
    if (more) return false;
    body += frame.record;
    last = frame.at;
    ++count;
    return true;
  });
  HttpResponse response =
      make_answer(request, http::status::ok, "application/octet-stream", std::move(body));
  response.set("TT-Records", std::to_string(count));
  if (more) response.set("TT-Next", std::to_string(last.step) + "." + std::to_string(last.id));
  return response;
}

}  // namespace

bool is_history(std::string_view path) {
  constexpr std::array<std::string_view, 5> kPaths = {"/history", "/history/runs", "/history/steps",
                                                      "/history/events", "/history/records"};
  return std::find(kPaths.begin(), kPaths.end(), path) != kPaths.end();
}

std::optional<std::string> run_asked_for(const HttpRequest& request) {
  return Members(request.target()).text("run");
}

HttpResponse answer_runs(const HttpRequest& request, OtherRuns& others) {
  Members query(request.target());
  if (const auto wrong = query.wrong()) return refusal(request, http::status::bad_request, *wrong);
  return json_answer(request, others.describe());
}

HttpResponse answer_history(const HttpRequest& request, record::Recording& recording,
                            const record::RecorderCounters& counters) {
  const std::string_view path = path_of(request);
  Members query(request.target());
  const auto id = query.text("run");
  const std::vector<record::RunInfo> runs = recording.runs();
  const auto run = std::find_if(runs.rbegin(), runs.rend(),
                                [&](const record::RunInfo& info) { return !id || info.id == *id; });
  if (path == "/history") {
    return answer_summary(request, query, recording, runs, run == runs.rend() ? nullptr : &*run,
                          counters);
  }
  if (path == "/history/events") return answer_events(request, query, recording);
  if (run == runs.rend())
    return refusal(request, http::status::not_found, "there is no such run here yet");
  return path == "/history/steps" ? answer_steps(request, query, recording, *run)
                                  : answer_records(request, query, recording, *run);
}

HttpResponse answer_any_run(const HttpRequest& request, record::Recording& recording,
                            const record::RecorderCounters& counters, OtherRuns& others) {
  if (path_of(request) == "/history/runs") return answer_runs(request, others);
  const auto id = run_asked_for(request);
  const std::vector<record::RunInfo> own = recording.runs();
  const bool is_own = !id || std::ranges::find(own, *id, &record::RunInfo::id) != own.end();
  const std::string path = is_own ? "" : others.path_of(*id);
  if (path.empty()) return answer_history(request, recording, counters);
  auto other = record::Recording::open(path);
  return other.ok() ? answer_history(request, other.value(), {})
                    : refusal(request, http::status::not_found, base::to_string(other.error()));
}

}  // namespace tt::hub

#include "src/hub/alarms/alarm_desk.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "src/hub/alarms/alarm_calls.h"
#include "src/hub/alarms/alarm_rule.h"
#include "tensor_tracer/protocol/json_members.h"
#include "tensor_tracer/protocol/message.h"

namespace tt::hub {
namespace {

using nlohmann::json;
using protocol::text_of;

constexpr auto kSaveInterval = std::chrono::milliseconds(500);

// Beside alarms.json.
std::string baselines_path(const std::string& alarms) {
  if (alarms.empty()) return {};
  return std::filesystem::path(alarms).replace_filename("baselines.json").string();
}

base::Error of_recording() {
  return {.code = "replay", .message = "a recording has the alarms of its run", .where = "name"};
}

// A viewer that is slow gets the newest of the `projections` with the same series and layers.
std::string key_of(const json& projections) {
  std::string key = "projections";
  for (json series : projections.at("series")) {
    for (const char* number : {"values", "baseline", "deviation", "change"}) series.erase(number);
    key += protocol::encode_json(series);
  }
  return key;
}

}  // namespace

AlarmDesk::AlarmDesk(const RoomOptions& options, Roster& roster, const Leaders& leaders,
                     AuditLog& audit_log, const RunState& run, LeaseKeeper& keeper, Demand& demand)
    : options_(options),
      roster_(roster),
      leaders_(leaders),
      audit_log_(audit_log),
      run_(run),
      keeper_(keeper),
      demand_(demand),
      projections_(baselines_path(options.alarms.path), options.alarms.run_id) {
  load();
  update_demand();
}

void AlarmDesk::update_demand() {
  PlanEntries compared{.all = options_.alarms.spikes != nullptr};
  for (const auto& [name, alarm] : alarms_) compared.some.merge(alarm.entries());
  demand_.set_alarms(std::move(compared));
}

// A hub that is started again has its own file; the file of --alarms is for the first hub.
void AlarmDesk::load() {
  const AlarmOptions& options = options_.alarms;
  auto saved = options.path.empty() ? std::nullopt : load_alarms(options.path, options.run_id);
  if (!saved) {
    for (const protocol::SetAlarm& rule : options.initial) alarms_.emplace(rule.name, rule);
    must_save_ = are_new_ = !alarms_.empty();
    return;
  }
  alarms_ = std::move(saved->alarms);
  const auto now = static_cast<std::uint64_t>(wall_time_ns()) / 1'000'000;
  if (saved->pause_end && *saved->pause_end > now)
    keeper_.continue_alarm_pause(Clock::now() + std::chrono::milliseconds(*saved->pause_end - now));
}

base::Result<json> AlarmDesk::set(const Member& member, const protocol::SetAlarm& rule) {
  if (options_.replay) return of_recording();
  if (base::Status checked = check_alarm(rule); !checked.ok()) return checked.error();
  if (!alarms_.contains(rule.name) && alarms_.size() >= kMaxAlarms) {
    return base::Error{.code = "too_large",
                       .message = "a run has at most " + std::to_string(kMaxAlarms) + " alarms",
                       .where = "name",
                       .remedy = "remove one"};
  }
  Alarm alarm(rule);
  if (base::Status found = alarm.follow(run_.facts()); !found.ok()) return found.error();
  warm(alarm);
  alarms_.erase(rule.name);
  const Alarm& now_set = alarms_.emplace(rule.name, std::move(alarm)).first->second;
  spdlog::info("alarm_set: {} by {}", protocol::encode_json(rule.name), member.session);
  notify_viewers({{"change", "set"}, {"alarm", now_set.describe()}}, &member);
  print("set", rule.name);
  update_demand();
  save(Clock::now());
  return json{{"alarm", now_set.describe()}};
}

// The steps that the hub has kept are the alarm's past.
void AlarmDesk::warm(Alarm& alarm) const {
  if (alarm.rule().point) return;
  for (const SharedBytes& step : run_.steps()) {
    const auto text = protocol::parse_json(*step);
    if (text.ok()) alarm.warm(protocol::member(text.value(), "params"));
  }
}

base::Result<json> AlarmDesk::remove(const Member& member, const protocol::RemoveAlarm& request) {
  if (options_.replay) return of_recording();
  const auto found = alarms_.find(request.name);
  if (found == alarms_.end()) {
    return base::Error{.code = "not_found",
                       .message = "there is no alarm of this name",
                       .where = "name",
                       .remedy = "alarms.list has the names"};
  }
  spdlog::info("alarm_removed: {} by {}", protocol::encode_json(request.name), member.session);
  notify_viewers({{"change", "removed"}, {"alarm", found->second.describe()}}, &member);
  print("removed", request.name);
  alarms_.erase(found);
  update_demand();
  save(Clock::now());
  return json::object();
}

json AlarmDesk::list() const {
  json all = json::array();
  for (const auto& [name, alarm] : alarms_) all.push_back(alarm.describe());
  for (const auto& [name, described] : replayed_) all.push_back(described);
  return all;
}

AlarmSurvey AlarmDesk::survey() const {
  AlarmSurvey survey{.fired = fired_};
  for (const auto& [name, alarm] : alarms_) survey.firing.emplace(name, alarm.is_firing());
  if (options_.alarms.calls != nullptr) survey.failed_calls = options_.alarms.calls->failed();
  return survey;
}

void AlarmDesk::follow_run() {
  if (options_.alarms.spikes != nullptr) options_.alarms.spikes->follow(run_.facts());
  if (!options_.replay) projections_.follow(run_.facts());
  const std::string before = std::exchange(run_id_, text_of(run_.facts(), "id"));
  const bool is_other = !before.empty() && before != run_id_;
  for (auto& [name, alarm] : alarms_) {
    if (is_other) alarm.restart();
    if (before.empty()) warm(alarm);
    if (const base::Status found = alarm.follow(run_.facts()); !found.ok())
      tell_waiting(name, found.error());
    if (are_new_) notify_viewers({{"change", "set"}, {"alarm", alarm.describe()}}, nullptr);
  }
  are_new_ = false;
  update_demand();
}

// An alarm of the file of --alarms has no viewer who could see why it waits.
void AlarmDesk::tell_waiting(const std::string& name, const base::Error& reason) const {
  const std::string message =
      "alarm " + protocol::encode_json(name) + " waits: " + base::to_string(reason);
  spdlog::warn("alarm_waits: {}", message);
  if (are_new_) leaders_.notify_trainer("alarm", {{"message", message}});
}

void AlarmDesk::take_record(const protocol::RecordView& record, const SharedBytes& bytes) {
  if (options_.alarms.spikes != nullptr) options_.alarms.spikes->add_record(record.header, bytes);
  projections_.take(record);
  for (auto& [name, alarm] : alarms_) alarm.take_record(record);
}

void AlarmDesk::end_records() {
  if (step_ && projections_.has_late_records(*step_)) notify_projections();
}

void AlarmDesk::end_step(const json& step, Clock::time_point now) {
  if (const auto number = protocol::natural(step, "step")) step_ = number;
  if (options_.alarms.spikes != nullptr && step.is_object()) options_.alarms.spikes->add_step(step);
  notify_projections();
  for (auto& [name, alarm] : alarms_) {
    for (const AlarmChange& change : alarm.compare(step)) report(alarm, change, now);
    must_save_ |= alarm.has_news();
  }
}

// The means of different steps are different events.
void AlarmDesk::notify_projections() {
  const std::vector<ProjectionMean> means = projections_.finish();
  for (auto& [name, alarm] : alarms_)
    for (const ProjectionMean& mean : means) alarm.take_mean(mean);
  for (auto begin = means.begin(); begin != means.end();) {
    const auto end = std::find_if(
        begin, means.end(), [&](const ProjectionMean& mean) { return mean.step != begin->step; });
    const json params = describe(std::vector<ProjectionMean>(begin, end));
    const auto text =
        std::make_shared<const std::string>(protocol::encode_notification("projections", params));
    audit_log_.data("projections", params, text->size());
    roster_.broadcast_data(key_of(params), text);
    begin = end;
  }
  if (const auto saved = projections_.save(); !saved)
    spdlog::error("baselines_not_saved: {}", base::to_string(saved.error()));
}

void AlarmDesk::report(const Alarm& alarm, const AlarmChange& change, Clock::time_point now) {
  const bool pauses = change.fired && alarm.rule().pause.value_or(false);
  json params = {{"change", change.fired ? "fired" : "cleared"},
                 {"step", change.step},
                 {"value", change.value},
                 {"message", change.message},
                 {"alarm", alarm.describe()}};
  if (change.layer > 0) params["layer"] = change.layer;
  if (pauses) {
    params["pause_seconds"] =
        std::chrono::duration_cast<std::chrono::seconds>(options_.alarms.pause).count();
    keeper_.pause_for_alarm(change.message, now + options_.alarms.pause);
  }
  if (change.fired) {
    ++fired_;
    spdlog::warn("alarm_fired: {}", change.message);
    const char* const pause = pauses ? "; the run is paused until somebody continues it" : "";
    leaders_.notify_trainer("alarm", {{"message", change.message + pause}});
    if (options_.alarms.spikes != nullptr) options_.alarms.spikes->write(change.step, now);
  } else {
    spdlog::info("alarm_cleared: {}", change.message);
  }
  if (options_.alarms.calls != nullptr) {
    json body = params;
    body["run"] = text_of(run_.facts(), "id");
    options_.alarms.calls->push(protocol::encode_json(std::move(body)));
  }
  notify_viewers(std::move(params), nullptr);
}

void AlarmDesk::finish() {
  if (options_.alarms.spikes == nullptr) return;
  if (const auto written = options_.alarms.spikes->finish()) report_spike(*written);
}

void AlarmDesk::report_spike(const SpikeRecorder::Written& written) {
  const std::string steps =
      std::to_string(written.first_step) + " to " + std::to_string(written.last_step);
  const bool ok = written.status.ok();
  const std::string message = ok ? "the spike recorder has kept the steps " + steps +
                                       ": tensor-tracer replay " + written.path
                                 : "the spike recorder could not keep the steps " + steps + ": " +
                                       base::to_string(written.status.error());
  ok ? spdlog::info("spike_kept: {}", message) : spdlog::error("spike_lost: {}", message);
  audit_log_.event("spike", {{"first_step", written.first_step},
                             {"last_step", written.last_step},
                             {"records", written.records},
                             {"path", written.path},
                             {"message", message}});
  roster_.broadcast("log", {{"level", ok ? "info" : "error"}, {"message", message}});
  leaders_.notify_trainer("alarm", {{"message", message}});
}

// On the run's terminal.
void AlarmDesk::print(std::string_view change, const std::string& name) const {
  leaders_.notify_trainer(
      "notice", {{"message", "alarm " + protocol::encode_json(name) + " " + std::string(change) +
                                 " by " + keeper_.lease().name()}});
}

// `member`: who asked for the change; null: the alarm itself.
void AlarmDesk::notify_viewers(json params, const Member* member) {
  audit_log_.event("alarm", params, member != nullptr ? member->session : "",
                   member != nullptr ? keeper_.lease().name() : "");
  roster_.broadcast("alarm", std::move(params));
}

void AlarmDesk::replay(std::string_view event, const json& params) {
  if (!options_.replay) return;
  if (event == "projections") return roster_.broadcast(event, params);
  const auto take = [&](const json& alarm) { replayed_[text_of(alarm, "name")] = alarm; };
  const json& alarm = protocol::member(params, "alarm");
  if (event == "alarms") {
    replayed_.clear();
    for (const json& one : protocol::member(params, "alarms")) take(one);
  } else if (text_of(params, "change") == "removed") {
    replayed_.erase(text_of(alarm, "name"));
  } else {
    take(alarm);
  }
  roster_.broadcast(event, params);
}

void AlarmDesk::tick(Clock::time_point now) {
  if (options_.alarms.spikes != nullptr) options_.alarms.spikes->tick(now);
  if (must_save_ && now - saved_ >= kSaveInterval) save(now);
}

void AlarmDesk::save(Clock::time_point now) {
  saved_ = now;
  must_save_ = false;
  const AlarmOptions& options = options_.alarms;
  if (options.path.empty()) return;
  std::optional<std::uint64_t> pause_end;
  if (const auto left = keeper_.alarm_pause_left(now)) {
    pause_end = static_cast<std::uint64_t>(wall_time_ns()) / 1'000'000 +
                static_cast<std::uint64_t>(left->count());
  }
  if (const auto saved = save_alarms(options.path, options.run_id, alarms_, pause_end); !saved)
    spdlog::error("alarms_not_saved: {}", base::to_string(saved.error()));
}

}  // namespace tt::hub

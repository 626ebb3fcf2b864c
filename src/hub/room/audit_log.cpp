#include "src/hub/room/audit_log.h"

#include <utility>

#include "src/hub/fanout/clock.h"
#include "tensor_tracer/hub/event_log.h"
#include "tensor_tracer/protocol/json_members.h"

namespace tt::hub {

using protocol::natural;

void AuditLog::describe_recording(nlohmann::json& facts) const {
  if (recorder_ != nullptr && facts.is_object()) {
    facts["recording"] = path_;
    facts["recording_max_bytes"] = recorder_->max_bytes();
  }
}

const record::RecordFilter* AuditLog::traced_filter() const {
  const bool takes =
      recorder_ != nullptr && recorder_->takes_traced() && !recorder_->counters().stopped;
  return takes ? &recorder_->filter() : nullptr;
}

bool AuditLog::keep_all() {
  if (recorder_ == nullptr || recorder_->counters().stopped) return false;
  recorder_->keep_all();
  return true;
}

AuditLog::Lost AuditLog::take_lost() {
  const record::RecorderCounters now = counters();
  if (now.stopped) return {};
  const Lost before = std::exchange(told_, {now.dropped, now.dropped_lines});
  return {now.dropped - before.records, now.dropped_lines - before.lines};
}

void AuditLog::facts(const nlohmann::json& facts) {
  const std::uint64_t before =
      std::exchange(run_, record::run_number(protocol::text_of(facts, "id")));
  step_ = run_ == before ? step_ : 0;
  if (recorder_ != nullptr) recorder_->set_run(facts);
  event("run", {{"plan", facts.value("plan", nlohmann::json())},
                {"prompt_sets", facts.value("prompt_sets", nlohmann::json::array())},
                {"interventions", facts.value("interventions", nlohmann::json::array())}});
}

void AuditLog::renew_facts(const nlohmann::json& facts) {
  if (recorder_ != nullptr) recorder_->set_run(facts);
}

void AuditLog::state(const nlohmann::json& state) {
  reach(state);
  event("state", state);
}

void AuditLog::step(const nlohmann::json& params) {
  reach(params);
  if (recorder_ != nullptr) recorder_->add_step(run_, params, wall_time_ns());
}

void AuditLog::reach(const nlohmann::json& where) {
  step_ = natural(where, "step").value_or(step_);
  set_log_step(step_);
}

void AuditLog::record(const protocol::RecordHeader& header, const SharedBytes& bytes) {
  if (recorder_ != nullptr) recorder_->add_record(header, bytes);
}

void AuditLog::event(std::string kind, nlohmann::json detail, std::string session,
                     std::string who) {
  keep({.kind = std::move(kind),
        .session = std::move(session),
        .who = std::move(who),
        .detail = std::move(detail)});
}

void AuditLog::data(std::string kind, nlohmann::json detail, std::size_t bytes) {
  keep({.kind = std::move(kind), .detail = std::move(detail), .bytes = bytes});
}

void AuditLog::keep(record::Event event) {
  if (recorder_ != nullptr) {
    event.run = run_;
    event.time_ns = wall_time_ns();
    event.step = natural(event.detail, "step").value_or(step_);
    recorder_->add_event(std::move(event));
  }
}

}  // namespace tt::hub

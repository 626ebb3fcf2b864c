#include "src/hub/room/lease_keeper.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <string>
#include <utility>

#include "tensor_tracer/base/check.h"
#include "tensor_tracer/base/overloaded.h"

namespace tt::hub {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxWaiting = 32;  // requests of one viewer that wait for the trainer

base::Error only_views() {
  return {.code = "not_allowed",
          .message = "this token allows only viewing",
          .remedy = "use the one in the file `token` of the run directory"};
}

}  // namespace

base::Result<json> LeaseKeeper::claim(const Client& client, const Member& member,
                                      const protocol::ClaimControl& request,
                                      Clock::time_point now) {
  if (!client.may_control()) return only_views();
  const bool take_over = request.take_over.value_or(false);
  const bool is_taken = lease_.held() && !lease_.held_by(member.session);
  const std::string before = lease_.name();
  if (auto given = lease_.claim(member.session, request.name.value_or(""), take_over, now);
      !given.ok())
    return given.error();
  ++metrics_.leases;
  spdlog::info("control_taken: {}, {}, controls the run", member.session,
               protocol::encode_json(lease_.name()));
  if (is_taken) {
    leaders_.notify_trainer(
        "notice", {{"message", "control taken over from " + before + " by " + lease_.name()}});
  }
  audit_log_.event("control.claim", {{"take_over", is_taken}}, member.session, lease_.name());
  roster_.broadcast("control", lease_.describe());
  const std::chrono::duration<double> seconds = lease_.duration();
  return json{{"lease_seconds", seconds.count()}};
}

json LeaseKeeper::release(const Member& member) {
  audit_log_.event("control.release", json::object(), member.session, lease_.name());
  lease_.release(member.session);
  end_lease("released");
  return json::object();
}

base::Status LeaseKeeper::forward(const Client& client, const Member& member, std::uint64_t id,
                                  protocol::TrainerRequest request, Clock::time_point now) {
  const protocol::Row& row = protocol::row_of(request);
  TT_CHECK(!row.needs_lease || lease_.held_by(member.session), "the lease is not held");
  if (!client.may_control()) return only_views();
  if (leaders_.trainer() == nullptr) return base::Error{"no_trainer", "no trainer is connected"};
  if (forwarder_.waiting(member.session) >= kMaxWaiting)
    return base::Error{"busy", "too many requests wait for the trainer"};
  if (row.needs_lease) {
    spdlog::info("{}: by {}, {}", row.method, member.session, protocol::encode_json(lease_.name()));
    note(request);
  }
  forwarder_.send(
      {.session = member.session, .id = id, .who = lease_.name(), .request = std::move(request)},
      now);
  return {};
}

// Notes the request now: the trainer's event may come after the end of the lease.
void LeaseKeeper::note(const protocol::TrainerRequest& request) {
  const auto note_pause = [&](bool pauses) {
    pause_requested_ = pauses;
    alarm_pause_.reset();
  };
  std::visit(base::Overloaded{[&](const protocol::PauseRun&) { pause_requested_ = true; },
                              [&](const protocol::StepRun&) { note_pause(true); },
                              [&](const protocol::ContinueRun&) { note_pause(false); },
                              [&](const protocol::ApplyProgram& apply) {
                                revert_requested_ |= !apply.keep.value_or(false);
                              },
                              [](const auto&) {}},
             request);
}

void LeaseKeeper::tick(Clock::time_point now) {
  if (lease_.expire(now)) end_lease("lease expired");
  end_alarm_pause(now);
  end_what_outlived_its_lease(now);
}

void LeaseKeeper::pause_for_alarm(std::string_view why, Clock::time_point end) {
  if (leaders_.trainer() != nullptr && !options_.replay) {
    alarm_pause_ = AlarmPause{.end = end};
    ask_trainer(protocol::PauseRun{}, why);
  }
}

std::optional<std::chrono::milliseconds> LeaseKeeper::alarm_pause_left(
    Clock::time_point now) const {
  return alarm_pause_
             ? std::optional(std::chrono::ceil<std::chrono::milliseconds>(alarm_pause_->end - now))
             : std::nullopt;
}

void LeaseKeeper::end_alarm_pause(Clock::time_point now) {
  if (!alarm_pause_) return;
  const std::string phase = run_.phase();
  alarm_pause_->began |= phase == "paused";
  // A trainer that connects again is still paused.
  if (alarm_pause_->began && phase != "paused" && phase != "lost") {
    alarm_pause_.reset();
  } else if (now >= alarm_pause_->end) {
    alarm_pause_.reset();
    last_held_ = now;
    if (!pause_requested_) continue_run("nobody continued the run that an alarm paused");
  }
}

// Ends a pause and reverts programs if no session holds the lease, for example after a restart of
// this hub.
void LeaseKeeper::end_what_outlived_its_lease(Clock::time_point now) {
  if (lease_.held()) {
    last_held_ = now;
    return;
  }
  const bool paused = run_.phase() == "paused" && !alarm_pause_;
  const bool changed = run_.has_programs_to_revert();
  if (leaders_.trainer() == nullptr || !(paused || changed) || now - last_held_ <= options_.lease)
    return;
  last_held_ = now;
  if (changed) revert_programs("nobody holds the lease");
  if (paused) continue_run("nobody holds the lease");
}

void LeaseKeeper::end_lease(std::string_view why) {
  spdlog::info("control_free: {}", why);
  audit_log_.event("control.free", {{"why", why}});
  roster_.broadcast("control", lease_.describe());
  if (revert_requested_ || run_.has_programs_to_revert()) revert_programs(why);
  const bool paused = std::exchange(pause_requested_, false) || run_.phase() == "paused";
  if (paused && !alarm_pause_) continue_run(why);
}

void LeaseKeeper::continue_run(std::string_view why) {
  pause_requested_ = false;
  ask_trainer(protocol::ContinueRun{}, why);
}

void LeaseKeeper::revert_programs(std::string_view why) {
  revert_requested_ = false;
  ask_trainer(protocol::RevertPrograms{}, why);
}

// A replay needs no request: it is paused without a lease, and its programs never change.
void LeaseKeeper::ask_trainer(protocol::TrainerRequest request, std::string_view why) {
  if (leaders_.trainer() == nullptr || options_.replay) return;
  spdlog::info("{}: {}", protocol::row_of(request).method, why);
  forwarder_.send({.request = std::move(request)}, Clock::now());
}

}  // namespace tt::hub

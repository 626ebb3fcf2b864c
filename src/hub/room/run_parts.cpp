#include "src/hub/room/run_parts.h"

#include <string>
#include <utility>

#include "src/hub/room/run_facts.h"
#include "tensor_tracer/protocol/json_members.h"

namespace tt::hub {
namespace {

using nlohmann::json;

std::string run_id(const json& facts) { return protocol::text_of(facts, "id"); }

}  // namespace

base::Status RunParts::check(const protocol::WorkerHello& hello) const {
  if (base::Status fits = leaders_.check(hello); !fits.ok()) return fits;
  if (hello.stage.value_or(0) == 0 || !run_.facts().is_object()) return {};
  if (run_id(hello.run) != run_id(run_.facts())) {
    return base::invalid_argument("run.id", "the hub shows run " + run_id(run_.facts()),
                                  "connect after the leader of stage 0");
  }
  json facts = run_.facts();
  const auto added = add_points(facts, protocol::member(hello.run, "points"));
  return added.ok() ? base::Status() : added.error();
}

void RunParts::take(Client& client, const protocol::WorkerHello& hello, Clock::time_point now) {
  if (hello.rank.value_or(0) == 0)
    lead_run(client, hello, now);
  else if (hello.stage)
    lead_part(client, hello, now);
}

// A leader that connects again is the same leader: its old connection is dead, but the hub has not
// noticed yet.
void RunParts::replace(Client& client, const protocol::WorkerHello& hello, Clock::time_point now) {
  Client* const before = leaders_.take(client, hello, now);
  if (before == nullptr) return;
  if (hello.stage.value_or(0) == 0) lose_run();
  before->close("another worker of rank " + std::to_string(hello.rank.value_or(0)) + " connected");
}

void RunParts::lead_run(Client& client, const protocol::WorkerHello& hello, Clock::time_point now) {
  for (std::size_t stage = 1; stage < leaders_.all().size(); ++stage) {
    const Leader& other = leaders_.all()[stage];
    if (other.client != nullptr && run_id(other.facts) != run_id(hello.run)) {
      other.client->close("the leader of stage 0 belongs to another run");
      leaders_.lose(stage, now);
    }
  }
  replace(client, hello, now);
  json facts = hello.run;
  audit_log_.describe_recording(facts);
  if (hello.stages.value_or(1) > 1) add_points_of_others(facts);
  show_run(std::move(facts));
  notices_.repeat_alarms(client);
}

// Adds the points of the other stages. After a restart of the hub, the facts that it kept name
// points of leaders that have not connected again yet.
void RunParts::add_points_of_others(json& facts) {
  if (run_id(run_.facts()) == run_id(facts))
    static_cast<void>(add_points(facts, protocol::member(run_.facts(), "points")));
  for (std::size_t stage = 1; stage < leaders_.all().size(); ++stage) {
    const json& other = leaders_.all()[stage].facts;
    if (run_id(other) == run_id(facts)) add_points_of(stage, facts);
  }
}

void RunParts::add_points_of(std::size_t stage, json& facts) {
  const Leader& leader = leaders_.all()[stage];
  const auto added = add_points(facts, protocol::member(leader.facts, "points"));
  if (added.ok())
    leaders_.set_point_numbers(stage, added.value());
  else
    notices_.log("error", leaders_.name_of(stage) + ": " + base::to_string(added.error()));
}

void RunParts::lead_part(Client& client, const protocol::WorkerHello& hello,
                         Clock::time_point now) {
  const std::size_t stage = *hello.stage;
  const bool was_reported = stage < leaders_.all().size() && leaders_.all()[stage].reported_missing;
  replace(client, hello, now);
  if (was_reported) notices_.log("info", leaders_.name_of(stage) + " is connected");
  if (!run_.facts().is_object()) {
    show_parts();  // the leader of stage 0 will bring the facts
    return;
  }
  json facts = run_.facts();
  add_points_of(stage, facts);
  show_run(std::move(facts));
}

void RunParts::show_run(json facts) {
  run_.set_facts(std::move(facts));
  audit_log_.facts(run_.facts());
  alarms_.follow_run();
  roster_.broadcast("run", run_.facts());
  show_parts();
}

void RunParts::show_parts() {
  if (json parts = leaders_.describe(); !parts.is_null()) {
    const json params = {{"parts", std::move(parts)}};
    audit_log_.event("parts", params);
    roster_.broadcast("parts", params);
  }
}

void RunParts::lose(std::size_t stage, Clock::time_point now) {
  leaders_.lose(stage, now);
  if (stage == 0) lose_run();
  show_parts();
}

void RunParts::lose_run() {
  forwarder_.end_all();
  if (run_.lose()) {
    audit_log_.state(run_.state());
    roster_.broadcast("state", run_.state());
  }
}

void RunParts::tick(Clock::time_point now) {
  if (run_.has_ended()) return;
  for (const std::size_t stage : leaders_.take_long_missing(now)) {
    notices_.log("warning",
                 leaders_.name_of(stage) + " is not connected: no new records of its layers");
  }
}

}  // namespace tt::hub

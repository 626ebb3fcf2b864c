#include "src/hub/room/worker_desk.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <memory>

#include "src/hub/room/run_facts.h"
#include "tensor_tracer/hub/event_log.h"
#include "tensor_tracer/protocol/request.h"

namespace tt::hub {
namespace {

using nlohmann::json;
using Names = std::array<std::string_view, 7>;

constexpr Names kPassedOn = {"step", "plan", "interventions", "applied", "saved", "dropped", "log"};
// The leader sends these for all ranks.
constexpr Names kFromLeaderOnly = {"state", "step", "plan", "interventions"};
// Other threads than the step's thread send these events, so they do not show that the step
// advances.
constexpr Names kFromOtherThreads = {"log", "dropped", "link"};

// A worker that sends only damaged records must not fill the viewers' queues with messages.
constexpr auto kDamageInterval = std::chrono::seconds(1);

bool contains(const Names& names, std::string_view event) {
  return !event.empty() && std::ranges::find(names, event) != names.end();
}

// Two events with the same key replace one another: a slow viewer gets the later one.
std::string data_key(const protocol::Notification& notification) {
  json key = json::array({notification.event});
  if (notification.event == "saved") {
    for (const char* member : {"program", "name", "layer", "phase", "prompt_set"}) {
      key.push_back(notification.params.value(member, json()));
    }
  }
  return protocol::encode_json(std::move(key));
}

}  // namespace

base::Status WorkerDesk::greet(Client& client, Member& member, const protocol::Request& message) {
  auto hello = protocol::parse_worker_hello(message.params);
  if (!hello) {
    return hello.error();
  }
  if (hello.value().role != "worker") {
    return base::invalid_argument("role", "must be \"worker\" here");
  }
  json& facts = hello.value().run;
  if (base::Status known = check_facts(facts); !known.ok()) {
    return known;
  }
  member.greeted = true;
  member.rank = hello.value().rank.value_or(0);
  const LogRank about(member.rank);
  spdlog::info("worker_joined: {}", member.session);
  json result = {
      {"version", protocol::kProtocolVersion}, {"session", member.session}, {"hub", TT_VERSION}};
  client.send(protocol::encode_result(message.id, std::move(result)));
  if (member.rank == 0) {
    replace_leader(client, member);
    audit_log_.describe_recording(facts);
    run_.set_facts(facts);
    audit_log_.facts(facts);
    alarms_.follow_run();
    roster_.broadcast("run", facts);
    roster_.repeat_alarms(client);
  }
  roster_.notify_demand();
  return {};
}

// A trainer that connects again is the same trainer: its old connection is dead, but the hub has
// not noticed yet.
void WorkerDesk::replace_leader(Client& client, const Member& member) {
  Client* const old = roster_.leader();
  roster_.set_leader(&client);
  spdlog::info("trainer_joined: {} is the trainer", member.session);
  if (old != nullptr) {
    lose_leader();
    old->close("another worker of rank 0 connected");
  }
}

void WorkerDesk::lose_leader() {
  forwarder_.end_all();
  if (run_.lose()) {
    audit_log_.state(run_.state());
    roster_.broadcast("state", run_.state());
  }
}

void WorkerDesk::on_notification(Client& client, Member& member,
                                 const protocol::Notification& notification, std::string_view text,
                                 Clock::time_point now) {
  const std::string& event = notification.event;
  member.moved = contains(kFromOtherThreads, event) ? member.moved : now;
  const bool from_leader = &client == roster_.leader();
  if (!from_leader && contains(kFromLeaderOnly, event)) {
    return;
  }
  if (event == "link") {
    member.link = parse_link(notification.params);
    return;
  }
  const auto shared = std::make_shared<const std::string>(text);
  if (event == "state") {
    if (run_.set_state(notification.params)) {
      audit_log_.state(notification.params);
      roster_.broadcast(shared);
      alarms_.end_step({}, now);
    }
    return;
  }
  if (event == "alarm" || event == "alarms") {
    alarms_.replay(event, notification.params);
    return;
  }
  if (!contains(kPassedOn, event)) {
    spdlog::debug("unknown_event: {}: {}", member.session, event.substr(0, 64));
    return;
  }
  if (event == "dropped") {
    metrics_.on_dropped(notification.params);
  }
  if (from_leader) {
    follow_leader(notification, shared, now);
  }
  pass_on(notification, shared);
}

void WorkerDesk::follow_leader(const protocol::Notification& notification, const SharedBytes& text,
                               Clock::time_point now) {
  const json& params = notification.params;
  if (notification.event == "step") {
    metrics_.on_step(params);
    run_.add_step(params, text);
    audit_log_.step(params);
    alarms_.end_step(params, now);
  } else if (notification.event == "plan") {
    run_.set_plan(params.value("plan", json()));
    alarms_.follow_run();
  } else if (notification.event == "interventions") {
    run_.set_programs(params.value("programs", json()));
  } else if (notification.event == "applied") {
    metrics_.on_applied(params);
  }
}

void WorkerDesk::pass_on(const protocol::Notification& notification, const SharedBytes& text) {
  const std::string& event = notification.event;
  // These events are as frequent as records. A slow viewer or a slow disk loses them as it loses
  // records.
  if (event == "applied" || event == "saved") {
    audit_log_.data(event, notification.params, text->size());
    roster_.broadcast_data(data_key(notification), text);
    return;
  }
  if (event != "step") {
    audit_log_.event(event, notification.params);
  }
  roster_.broadcast(text);
}

void WorkerDesk::on_binary(Member& member, const SharedBytes& message, Clock::time_point now) {
  member.moved = now;
  take_records(member, message, now);
  for (const auto& [viewer, state] : roster_.members()) {
    viewer->queue().end_message(now);
  }
}

void WorkerDesk::take_records(Member& member, const SharedBytes& records, Clock::time_point now) {
  // Viewers check the payload's CRC: they then see the values that the leader computed.
  protocol::RecordReader reader(*records, protocol::RecordCheck::kHeader);
  while (const auto record = reader.next()) {
    ++metrics_.records;
    metrics_.on_record(*record);
    StoredRecord stored{.key = protocol::key_of(record->header),
                        .plan = record->header.plan,
                        .point = record->header.point,
                        .bytes = records.part(record->whole)};
    alarms_.take_record(*record, stored.bytes);
    show_record(stored, now);
    audit_log_.record(record->header, stored.bytes);
    run_.keep_record(std::move(stored));
  }
  if (!reader.status().ok()) {
    notify_damage(member, reader.status().error(), now);
  }
}

void WorkerDesk::show_record(const StoredRecord& record, Clock::time_point now) {
  for (const auto& [viewer, member] : roster_.members()) {
    if (viewer->role() == Role::kViewer && member.greeted) {
      viewer->queue().push_record(record, now);
      viewer->wake();
    }
  }
}

// Sends at most one message per worker in this interval. The next message states how many were left
// out.
void WorkerDesk::notify_damage(Member& member, const base::Error& error, Clock::time_point now) {
  ++metrics_.damaged_records;
  if (member.damage_told != Clock::time_point() && now - member.damage_told < kDamageInterval) {
    ++member.damage_untold;
    return;
  }
  member.damage_told = now;
  const std::uint64_t more = std::exchange(member.damage_untold, 0);
  const std::string since =
      more == 0 ? "" : " (" + std::to_string(more) + " more since the last message of this kind)";
  spdlog::error("damaged_record: {}: {}{}", member.session, base::to_string(error), since);
  roster_.log("error", "a record of the trainer is damaged: " + error.message + since);
}

}  // namespace tt::hub

#include "src/hub/room/viewer_desk.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "src/hub/fanout/subscription.h"
#include "tensor_tracer/base/overloaded.h"
#include "tensor_tracer/protocol/json_members.h"

namespace tt::hub {
namespace {

using nlohmann::json;

// The viewers, in the order in which they connected.
json describe_viewers(const Roster::Members& members) {
  std::vector<std::pair<Clock::time_point, json>> viewers;
  for (const auto& [client, member] : members) {
    if (client->role() == Role::kViewer && member.greeted) {
      viewers.emplace_back(member.joined, json{{"session", member.session},
                                               {"native", client->is_native()},
                                               {"may_control", client->may_control()},
                                               {"queued_bytes", client->queue().bytes()},
                                               {"dropped_records", client->queue().dropped()}});
    }
  }
  std::ranges::sort(viewers, {}, &std::pair<Clock::time_point, json>::first);
  json described = json::array();
  for (auto& [joined, viewer] : viewers) described.push_back(std::move(viewer));
  return described;
}

}  // namespace

base::Status ViewerDesk::greet(Client& client, Member& member, const protocol::Request& message,
                               Clock::time_point now) {
  const auto hello = protocol::parse_viewer_hello(message.params);
  if (!hello) return hello.error();
  const bool is_controller = hello.value().role == "controller";
  if (!is_controller && hello.value().role != "viewer")
    return base::invalid_argument("role", "must be \"viewer\" or \"controller\" here");
  if (is_controller) {
    const auto claimed = keeper_.claim(client, member, {.name = hello.value().name}, now);
    if (!claimed) return claimed.error();
  }
  member.greeted = true;
  client.queue().set_window(hello.value().window.value_or(0));
  client.send(protocol::encode_result(message.id, describe(client, member)));
  notices_.repeat_alarms(client);
  for (const SharedBytes& step : run_.steps()) client.send(step);
  if (hello.value().watch.value_or(true)) {
    member.watches = true;
    client.queue().offer_latest();
    client.wake();
    demand_.update();
  } else {
    client.queue().subscribe({.entries = std::set<std::uint32_t>()});
  }
  return {};
}

json ViewerDesk::describe(const Client& client, const Member& member) const {
  json described = {{"version", protocol::kProtocolVersion},
                    {"session", member.session},
                    {"hub", TT_VERSION},
                    {"run", run_.facts()},
                    {"state", run_.state()},
                    {"control", keeper_.lease().describe()},
                    {"alarms", alarms_.list()},
                    {"may_control", client.may_control()}};
  if (json parts = leaders_.describe(); !parts.is_null()) described["parts"] = std::move(parts);
  return described;
}

void ViewerDesk::on_request(Client& client, Member& member, const protocol::Request& message,
                            Clock::time_point now) {
  if (protocol::needs_lease(message.method) && !keeper_.lease().held_by(member.session)) {
    client.send(
        protocol::encode_error(message.id, {"not_controller", "claim control first", "", ""}));
    return;
  }
  auto request = protocol::parse_viewer_request(message.method, message.params);
  if (!request) {
    client.send(protocol::encode_error(message.id, request.error()));
    return;
  }
  std::visit(base::Overloaded{[&](const protocol::HubRequest& asked) {
                                client.send(protocol::encode_answer(
                                    message.id, answer(client, member, asked, now)));
                              },
                              [&](protocol::TrainerRequest& asked) {
                                const base::Status sent = keeper_.forward(
                                    client, member, message.id, std::move(asked), now);
                                if (!sent)
                                  client.send(protocol::encode_error(message.id, sent.error()));
                              }},
             request.value());
}

base::Result<json> ViewerDesk::answer(Client& client, Member& member,
                                      const protocol::HubRequest& request, Clock::time_point now) {
  using Answer = base::Result<json>;
  return std::visit(
      base::Overloaded{
          [](const protocol::Ping&) -> Answer { return json::object(); },
          [&](const protocol::Subscribe& asked) { return subscribe(client, member, asked); },
          [&](const protocol::ClaimControl& asked) {
            return keeper_.claim(client, member, asked, now);
          },
          [&](const protocol::ReleaseControl&) -> Answer { return keeper_.release(member); },
          [&](const protocol::KeepRun&) { return keep_run(member); },
          [&](const protocol::ListViewers&) -> Answer {
            return json{{"viewers", describe_viewers(roster_.members())}};
          },
          [&](const protocol::SetAlarm& asked) { return alarms_.set(member, asked); },
          [&](const protocol::RemoveAlarm& asked) { return alarms_.remove(member, asked); },
          [&](const protocol::ListAlarms&) -> Answer {
            return json{{"alarms", alarms_.list()}};
          }},
      request);
}

base::Result<json> ViewerDesk::keep_run(const Member& member) {
  if (!audit_log_.keep_all()) {
    return base::Error{"not_recorded", "this run is not recorded", "",
                       "see the alarms, or start the run again with --record"};
  }
  audit_log_.event("run.keep", json::object(), member.session, keeper_.lease().name());
  leaders_.notify_trainer("notice", {{"message", "kept by " + keeper_.lease().name() +
                                                     ": all traced data is recorded from now on"}});
  run_.set_recording_limit(0);
  roster_.broadcast("recording", {{"bytes", audit_log_.counters().file_bytes}, {"max_bytes", 0}});
  demand_.update();
  return json{{"max_bytes", 0}};
}

base::Result<json> ViewerDesk::subscribe(Client& client, Member& member,
                                         const protocol::Subscribe& request) {
  auto subscription = parse_subscription(request, run_.facts());
  if (!subscription) return subscription.error();
  client.queue().subscribe(std::move(subscription).value());
  member.watches = true;
  demand_.update();
  return json::object();
}

base::Status ViewerDesk::on_notification(Client& client, Member& member,
                                         const protocol::Notification& notification) {
  const std::uint64_t before = client.queue().acknowledged();
  const auto messages = protocol::natural(notification.params, "messages");
  const bool valid =
      notification.event == "ack" && messages && client.queue().acknowledge(*messages);
  if (!valid) {
    return base::Error{"invalid_request",
                       "viewers notify of nothing but ack, with the number of binary messages "
                       "taken so far",
                       "messages"};
  }
  if (client.queue().acknowledged() > before) member.gate.give_back();
  client.wake();
  return {};
}

}  // namespace tt::hub

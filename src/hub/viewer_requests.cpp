#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <utility>

#include "src/hub/room.h"
#include "src/hub/subscription.h"

namespace tt::hub {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxWaiting = 32;     // requests of one viewer that wait for the trainer
constexpr std::size_t kMaxNameBytes = 64;   // of a controller's name
constexpr std::uint64_t kMaxWindow = 1024;  // messages that may be unacknowledged

/// Requests that the hub passes on, and the parameters that each knows. What changes nothing needs
/// no lease.
struct Forwarded {
  std::string_view method;
  std::array<std::string_view, 5> parameters = {};
  bool changes = true;

  bool knows(std::string_view parameter) const {
    return !parameter.empty() && std::ranges::find(parameters, parameter) != parameters.end();
  }
};
constexpr std::array<Forwarded, 13> kForwarded = {{
    {"control.pause"},
    {"replay.seek", {"step"}},
    {"replay.speed", {"speed"}},
    {"control.continue"},
    {"control.stop"},
    {"control.step", {"count"}},
    {"plan.set", {"plan"}},
    {"plan.check", {"plan"}, false},
    {"intervention.check", {"program"}, false},
    {"intervention.apply", {"name", "program", "parameters", "ttl", "keep"}},
    {"intervention.set", {"name", "parameter", "value"}},
    {"intervention.remove", {"name"}},
    {"intervention.preview", {"program", "parameters", "plan"}},
}};

const Forwarded* find_forwarded(std::string_view method) {
  const auto found = std::find_if(kForwarded.begin(), kForwarded.end(),
                                  [&](const Forwarded& f) { return f.method == method; });
  return found == kForwarded.end() ? nullptr : found;
}

base::Error error(const char* code, std::string message, std::string where = {}) {
  return {.code = code, .message = std::move(message), .where = std::move(where), .remedy = {}};
}

base::Error only_views() {
  return {.code = "not_allowed",
          .message = "this token only views",
          .where = {},
          .remedy = "use the one in the file `token` of the run directory"};
}

bool knows_version(const json& params) {
  const auto versions = params.find("versions");
  return versions != params.end() && versions->is_array() &&
         std::find(versions->begin(), versions->end(), protocol::kProtocolVersion) !=
             versions->end();
}

base::Status check_hello(const json& params, Role role) {
  const bool viewer = role == Role::kViewer;
  const auto known =
      viewer ? protocol::check_members(params, {"versions", "role", "client", "name", "window"})
             : protocol::check_members(
                   params, {"versions", "role", "client", "run", "rank", "shared_memory"});
  if (!known.ok()) {
    return known;
  }
  const json said = params.value("role", json());
  if (viewer ? said != "viewer" && said != "controller" : said != "worker") {
    return error("invalid_argument",
                 viewer ? "must be \"viewer\" or \"controller\" here" : "must be \"worker\" here",
                 "role");
  }
  return {};
}

}  // namespace

void Room::on_request(Client& client, Member& member, protocol::Request request,
                      Clock::time_point now) {
  const std::uint64_t id = request.id;
  if (!member.greeted) {
    greet(client, member, request, now);
    return;
  }
  const Forwarded* kind = find_forwarded(request.method);
  if (client.role() == Role::kViewer && kind != nullptr) {
    const bool allowed = kind->changes || client.may_control();
    const base::Status sent =
        allowed ? forward(member, std::move(request), now) : base::Status(only_views());
    if (!sent.ok()) {
      send(client, protocol::encode_error(id, sent.error()));
    }
    return;
  }
  base::Result<json> answer = answer_viewer(client, member, request, now);
  send(client, answer.ok() ? protocol::encode_result(id, std::move(answer).value())
                           : protocol::encode_error(id, answer.error()));
}

base::Result<json> Room::answer_viewer(Client& client, Member& member,
                                       const protocol::Request& request, Clock::time_point now) {
  const bool viewer = client.role() == Role::kViewer;
  if (viewer && request.method == "control.claim") {
    return claim(client, member, request.params, now);
  }
  if (viewer && request.method == "subscribe") {
    return subscribe(client, request.params);
  }
  const bool release_asked = viewer && request.method == "control.release";
  if (!release_asked && request.method != "ping") {
    return error("unknown_method", "this hub knows no such method", request.method.substr(0, 64));
  }
  if (auto known = protocol::check_members(request.params, {}); !known.ok()) {
    return known.error();
  }
  return release_asked ? release(member) : json::object();
}

base::Result<json> Room::claim(const Client& client, const Member& member, const json& params,
                               Clock::time_point now) {
  if (!client.may_control()) {
    return only_views();
  }
  if (auto known = protocol::check_members(params, {"name", "take_over"}); !known.ok()) {
    return known.error();
  }
  const json name = params.value("name", json(""));
  const json take_over = params.value("take_over", json(false));
  if (!name.is_string() || name.get_ref<const std::string&>().size() > kMaxNameBytes) {
    return error("invalid_argument", "must be a text of at most 64 bytes", "name");
  }
  if (!take_over.is_boolean()) {
    return error("invalid_argument", "must be true or false", "take_over");
  }
  if (auto given =
          lease_.claim(member.session, name.get<std::string>(), take_over.get<bool>(), now);
      !given.ok()) {
    return given.error();
  }
  ++metrics_.leases;
  spdlog::info("control_taken: {}, {}, controls the run", member.session,
               protocol::encode_json(name));
  journal_.event("control.claim", {{"take_over", take_over}}, member.session, lease_.name());
  broadcast("control", lease_.describe());
  const std::chrono::duration<double> seconds = lease_.duration();
  return json{{"lease_seconds", seconds.count()}};
}

base::Result<json> Room::release(const Member& member) {
  const std::string who = lease_.name();
  if (!lease_.release(member.session)) {
    return error("not_controller", "this session does not hold the lease");
  }
  journal_.event("control.release", json::object(), member.session, who);
  end_lease("released");
  return json::object();
}

base::Result<json> Room::subscribe(Client& client, const json& params) {
  base::Result<Subscription> wanted = parse_subscription(params, mirror_.facts());
  if (!wanted) {
    return wanted.error();
  }
  client.queue().subscribe(std::move(wanted).value());
  return json::object();
}

void Room::on_viewer_notification(Client& client, Member& member,
                                  const protocol::Notification& notification) {
  const std::uint64_t before = client.queue().acknowledged();
  const json messages = notification.params.value("messages", json());
  const bool valid = notification.event == "ack" && messages.is_number_unsigned() &&
                     client.queue().acknowledge(messages.get<std::uint64_t>());
  if (valid) {
    if (client.queue().acknowledged() > before) {
      member.gate.give_back();
    }
    client.wake();
  } else {
    on_malformed(client, {0,
                          {"invalid_request",
                           "viewers notify of nothing but ack, with the number of binary messages "
                           "taken so far",
                           "messages", ""}});
  }
}

base::Status Room::forward(const Member& member, protocol::Request request, Clock::time_point now) {
  const Forwarded& kind = *find_forwarded(request.method);
  if (kind.changes && !lease_.held_by(member.session)) {
    return error("not_controller", "claim control first");
  }
  for (const auto& [name, value] : request.params.items()) {
    if (!kind.knows(name)) {
      return error("invalid_argument", "this member is not known", name.substr(0, 64));
    }
  }
  if (leader_ == nullptr) {
    return error("no_trainer", "no trainer is connected");
  }
  if (forwarder_.waiting(member.session) >= kMaxWaiting) {
    return error("busy", "too many requests wait for the trainer");
  }
  if (kind.changes) {
    spdlog::info("{}: by {}, {}", request.method, member.session,
                 protocol::encode_json(lease_.name()));
    pause_wanted_ = request.method == "control.pause" || request.method == "control.step" ||
                    (pause_wanted_ && request.method != "control.continue");
    revert_wanted_ = revert_wanted_ || (request.method == "intervention.apply" &&
                                        request.params.value("keep", json()) != true);
  }
  // So many steps take as long as they take; a trainer that is lost answers too.
  const bool takes_long = request.method == "control.step";
  const std::uint64_t id =
      forwarder_.add({.session = member.session,
                      .id = request.id,
                      .who = lease_.name(),
                      .method = request.method,
                      .params = kind.changes ? request.params : json(),
                      .changes = kind.changes},
                     takes_long ? Clock::time_point::max() : now + options_.request_timeout);
  send(*leader_, protocol::encode_request(id, request.method, std::move(request.params)));
  return {};
}

void Room::greet(Client& client, Member& member, const protocol::Request& request,
                 Clock::time_point now) {
  if (request.method != "hello") {
    send(client, protocol::encode_error(
                     request.id, error("invalid_request", "the first message is hello", "method")));
    return;
  }
  if (auto valid = check_hello(request.params, client.role()); !valid.ok()) {
    send(client, protocol::encode_error(request.id, valid.error()));
    return;
  }
  if (!knows_version(request.params)) {
    send(client,
         protocol::encode_error(
             request.id, error("unsupported_version", "this hub speaks version 1", "versions")));
    client.close_after_sending("unsupported version");
    return;
  }
  if (client.role() == Role::kViewer) {
    if (base::Status greeted = greet_viewer(client, member, request, now); !greeted.ok()) {
      send(client, protocol::encode_error(request.id, greeted.error()));
    }
  } else {
    greet_worker(client, member, request);
  }
}

base::Status Room::greet_viewer(Client& client, Member& member, const protocol::Request& request,
                                Clock::time_point now) {
  const json window = request.params.value("window", json(0U));
  if (!window.is_number_unsigned() || window.get<std::uint64_t>() > kMaxWindow) {
    return error("invalid_argument", "must be a number of messages, at most 1024", "window");
  }
  if (request.params.at("role") == "controller") {
    const json name = request.params.value("name", json(""));
    if (auto claimed = claim(client, member, {{"name", name}}, now); !claimed.ok()) {
      return claimed.error();
    }
  }
  member.greeted = true;
  client.queue().set_window(window.get<std::uint64_t>());
  send(client, protocol::encode_result(request.id, {{"version", protocol::kProtocolVersion},
                                                    {"session", member.session},
                                                    {"hub", TT_VERSION},
                                                    {"run", mirror_.facts()},
                                                    {"state", mirror_.state()},
                                                    {"control", lease_.describe()},
                                                    {"may_control", client.may_control()}}));
  for (const std::string& alarm : alarms_) {
    send(client, protocol::encode_notification("log", {{"level", "error"}, {"message", alarm}}));
  }
  for (const SharedBytes& step : mirror_.steps()) {
    send(client, step);
  }
  client.queue().offer_latest();
  client.wake();
  notify_viewer_count();
  return {};
}

}  // namespace tt::hub

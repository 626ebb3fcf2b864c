#include "src/hub/legacy/legacy_desk.h"

#include <spdlog/spdlog.h>

#include <string>
#include <utility>

#include "src/hub/legacy/native_plan.h"
#include "src/hub/legacy/texts.h"
#include "tensor_tracer/base/overloaded.h"

namespace tt::hub {
namespace {

using nlohmann::json;

std::string name_of(dialect::Dialect dialect) {
  return dialect == dialect::Dialect::kMegaScope ? "MegaScope client" : "Tensor Tracer client";
}

void send_error(Client& client, const base::Error& error) {
  Roster::send(client, dialect::error_text(error));
}

}  // namespace

bool LegacyDesk::on_text(Client& client, Member& member, std::string_view text,
                         Clock::time_point now) {
  if (client.role() != Role::kViewer || (member.greeted && !member.legacy)) {
    return false;
  }
  auto message = protocol::parse_json(text);
  if (message && dialect::is_legacy(message.value())) {
    if (!member.legacy) {
      member.legacy.emplace();
    }
    on_message(client, member, std::move(message).value(), now);
    return true;
  }
  if (!member.legacy) {
    return false;
  }
  if (!member.legacy->dialect && message && message.value().is_object() &&
      message.value().contains("method")) {
    member.legacy.reset();
    return false;
  }
  send_error(client,
             message ? base::Error{"invalid_request", "a message has a type"} : message.error());
  return true;
}

// A message of another type gets no answer, as in both tools.
void LegacyDesk::on_message(Client& client, Member& member, json message, Clock::time_point now) {
  const std::string& type = dialect::member(message, "type").get_ref<const std::string&>();
  if (type == "ping") {
    Roster::send(client, dialect::pong_text());
  } else if (type == "run_training_step") {
    run_training_step(client, member, std::move(message), now);
  } else if (type == "worker_forward") {
    send_error(client, {"not_allowed", "worker_forward comes from workers", "",
                        "the run's ranks send their data themselves"});
  } else if (type == "generate") {
    send_error(client, {"not_allowed", "this run trains and does not generate", "",
                        "send run_training_step"});
  }
}

void LegacyDesk::run_training_step(Client& client, Member& member, json message,
                                   Clock::time_point now) {
  LegacyViewer& legacy = *member.legacy;
  if (!legacy.dialect) {
    legacy.dialect = dialect::dialect_of(message);
    client.queue().translate_records([this, dialect = *legacy.dialect](const SharedBytes& record) {
      return update_of(dialect, record);
    });
    spdlog::info("legacy_viewer: {}: a {}", member.session, name_of(*legacy.dialect));
  }
  const bool finished = run_.has_ended();
  if (roster_.leader() == nullptr && !finished) {
    legacy.waiting = std::move(message);  // answered when a trainer connects
    return;
  }
  const base::Status watched = finished ? base::Error{"no_trainer", "the run has finished"}
                                        : watch(client, member, message, now);
  if (!watched.ok()) {
    send_error(client, watched.error());
  }
}

base::Status LegacyDesk::watch(Client& client, Member& member, const json& message,
                               Clock::time_point now) {
  const auto disturbances = dialect::read_disturbances(*member.legacy->dialect, message);
  if (!disturbances) {
    return disturbances.error();
  }
  const auto plan = dialect::make_plan(*member.legacy->dialect, message, run_.facts());
  if (!plan) {
    return plan.error();
  }
  // A recording cannot be changed: its viewers see what it holds.
  const bool holds =
      !options_.replay &&
      (keeper_.lease().held_by(member.session) ||
       keeper_.claim(client, member, {.name = name_of(*member.legacy->dialect)}, now).ok());
  std::vector<protocol::TrainerRequest> requests;
  if (holds) {
    requests = missing_requests(member, plan.value(), disturbances.value());
  }
  const bool asks = !requests.empty();
  if (auto sent = ask(client, member, std::move(requests), now); !sent.ok()) {
    return sent;
  }
  // Only now, after the requests: a run that waits for a viewer now starts, with this plan.
  if (!std::exchange(member.greeted, true)) {
    roster_.notify_viewer_count();
  }
  if (!asks) {
    start(client, member);
  }
  return {};
}

// The requests that put this plan and exactly these disturbances in force.
std::vector<protocol::TrainerRequest> LegacyDesk::missing_requests(
    const Member& member, const json& plan,
    const std::vector<dialect::Disturbance>& disturbances) const {
  // Earlier requests of this viewer may not be answered yet.
  const bool unsure = forwarder_.waiting(member.session) > 0;
  std::vector<protocol::TrainerRequest> requests;
  for (const auto& [name, program] : disturbances) {
    const json* const known = run_.find_program(name);
    if (program.empty() && (unsure || known != nullptr)) {
      requests.emplace_back(protocol::RemovePrograms{.name = name});
    } else if (!program.empty() &&
               (unsure || known == nullptr || dialect::member(*known, "text") != program)) {
      requests.emplace_back(protocol::ApplyProgram{.name = name, .program = program});
    }
  }
  const json& in_force = dialect::member(dialect::member(run_.facts(), "plan"), "entries");
  if (unsure || in_force != plan.at("entries")) {
    requests.emplace_back(protocol::SetPlan{.plan = plan});
  }
  return requests;
}

base::Status LegacyDesk::ask(const Client& client, Member& member,
                             std::vector<protocol::TrainerRequest> requests,
                             Clock::time_point now) {
  LegacyViewer& legacy = *member.legacy;
  LegacyViewer::Asked asked;
  ++legacy.last_asked;
  for (protocol::TrainerRequest& request : requests) {
    const auto sent = keeper_.forward(client, member, legacy.last_asked, std::move(request), now);
    if (!sent.ok()) {
      asked.refused = sent.error();
      break;
    }
    ++asked.unanswered;
  }
  if (asked.unanswered > 0) {
    legacy.asked.emplace(legacy.last_asked, std::move(asked));
  } else if (asked.refused) {
    return *asked.refused;
  }
  return {};
}

void LegacyDesk::start(Client& client, Member& member) {
  const std::string phase = run_.phase();
  if (keeper_.lease().held_by(member.session) && (phase == "paused" || phase == "waiting")) {
    keeper_.continue_run("run_training_step of " + member.session);
  }
  Roster::send(client, dialect::start_text(run_.facts()));
  if (!std::exchange(member.legacy->started, true)) {
    client.queue().offer_latest();
    client.wake();
  }
}

void LegacyDesk::finish(Client& client, Member& member, const Forwarder::Asker& asker,
                        const base::Result<json>& outcome) {
  if (outcome.ok()) {
    follow(asker.request, outcome.value());
  }
  const auto found = member.legacy->asked.find(asker.id);
  if (found == member.legacy->asked.end()) {
    return;
  }
  LegacyViewer::Asked& asked = found->second;
  // A program that does not exist counts as removed.
  const bool removal = std::holds_alternative<protocol::RemovePrograms>(asker.request);
  const bool lost =
      !outcome.ok() && (outcome.error().code == "no_trainer" || outcome.error().code == "timeout");
  if (!asked.refused && !outcome.ok() && (!removal || lost)) {
    asked.refused = outcome.error();
  }
  if (--asked.unanswered > 0) {
    return;
  }
  const std::optional<base::Error> refused = std::move(asked.refused);
  member.legacy->asked.erase(found);
  if (refused) {
    send_error(client, *refused);
  } else {
    start(client, member);
  }
}

// The trainer's events report the same a moment later, but the next run_training_step may come
// before them.
void LegacyDesk::follow(const protocol::TrainerRequest& request, const json& result) {
  std::visit(base::Overloaded{
                 [&](const protocol::SetPlan&) { run_.set_plan(dialect::member(result, "plan")); },
                 [&](const protocol::ApplyProgram&) {
                   run_.put_program(dialect::member(result, "program"));
                 },
                 [&](const protocol::RemovePrograms& removed) {
                   run_.drop_program(removed.name.value_or(""));
                 },
                 [](const auto&) {}},
             request);
}

// A legacy viewer sends no heartbeats. Its lease lasts as long as its connection; the connection
// ends if the viewer does not answer the hub's pings.
void LegacyDesk::tick(Clock::time_point now) {
  for (auto& [client, member] : roster_.members()) {
    if (!member.legacy) {
      continue;
    }
    keeper_.renew(member.session, now);
    if (roster_.leader() != nullptr && !member.legacy->waiting.is_null()) {
      run_training_step(*client, member, std::exchange(member.legacy->waiting, nullptr), now);
    }
  }
}

void LegacyDesk::take_updates() {
  encoder_.collect();
  for (const auto& [client, member] : roster_.members()) {
    if (member.legacy) {
      client->wake();
    }
  }
}

Translation LegacyDesk::update_of(dialect::Dialect dialect, const SharedBytes& record) {
  if (!run_.shown_records().shows(dialect, *record)) {
    return {};
  }
  auto text = encoder_.update_of(dialect, record);
  return {.later = !text.has_value(), .text = std::move(text)};
}

}  // namespace tt::hub

#include "src/hub/legacy/legacy_gateway.h"

#include <string>
#include <utility>

#include "src/hub/legacy/texts.h"

namespace tt::hub {

using nlohmann::json;

void LegacyGateway::join(Client& client, Clock::time_point now, bool may_be_silent) {
  room_.join(client, now, may_be_silent);
  if (client.role() == Role::kViewer)
    viewers_.emplace(&client, Viewer{.gate = MessageGate(MessageLimit{})});
}

void LegacyGateway::leave(Client& client) {
  const auto viewer = viewers_.extract(&client);
  if (!viewer.empty() && viewer.mapped().session) {
    client.queue().draw_from(nullptr);
    room_.leave(*viewer.mapped().session);
  } else {
    room_.leave(client);
  }
}

void LegacyGateway::on_text(Client& client, std::string_view text, Clock::time_point now) {
  const auto found = viewers_.find(&client);
  if (found == viewers_.end()) {
    room_.on_text(client, text, now);
    return;
  }
  Viewer& viewer = found->second;
  auto message = protocol::parse_json(text);
  const bool is_legacy = message.ok() && dialect::is_legacy(message.value());
  if (!viewer.session && !is_legacy) {
    if (message.ok() && message.value().is_object() && message.value().contains("method"))
      viewers_.erase(found);
    room_.on_text(client, text, now);
  } else if (!admit(client, viewer, now)) {
    return;
  } else if (is_legacy) {
    on_message(client, viewer, std::move(message).value());
  } else {
    client.send(dialect::error_text(
        message.ok() ? base::Error{"invalid_request", "a message has a type"} : message.error()));
  }
}

bool LegacyGateway::admit(Client& client, Viewer& viewer, Clock::time_point now) {
  const MessageGate::Verdict verdict = viewer.gate.admit(now);
  if (verdict == MessageGate::Verdict::kPass) return true;
  ++room_.metrics().rate_limited;
  if (verdict == MessageGate::Verdict::kClose) client.close_for_violation("too many messages");
  return false;
}

// A message of another type gets no answer, as in both tools.
void LegacyGateway::on_message(Client& client, Viewer& viewer, json message) {
  const std::string& type = dialect::member(message, "type").get_ref<const std::string&>();
  if (type == "ping") {
    client.send(dialect::pong_text());
  } else if (type == "run_training_step") {
    if (!viewer.session) {
      viewer.session = std::make_unique<dialect::LegacySession>(
          room_, client, encoder_, dialect::dialect_of(message), ask_for_work_);
    }
    viewer.session->run_training_step(std::move(message));
    viewer.session->work();
  } else if (type == "worker_forward") {
    client.send(dialect::error_text({"not_allowed", "worker_forward comes from workers", "",
                                     "the run's ranks send their data themselves"}));
  } else if (type == "generate") {
    client.send(dialect::error_text(
        {"not_allowed", "this run trains and does not generate", "", "send run_training_step"}));
  }
}

void LegacyGateway::on_binary(Client& client, const SharedBytes& message, Clock::time_point now) {
  const auto found = viewers_.find(&client);
  if (found == viewers_.end() || !found->second.session) {
    room_.on_binary(client, message, now);
  } else if (admit(client, found->second, now)) {
    client.send(
        dialect::error_text({"invalid_request", "binary messages come from workers", "", ""}));
  }
}

void LegacyGateway::work() {
  encoder_.collect();
  for (auto& [client, viewer] : viewers_)
    if (viewer.session) viewer.session->work();
}

}  // namespace tt::hub

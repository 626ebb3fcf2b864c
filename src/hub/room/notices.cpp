#include "src/hub/room/notices.h"

#include <spdlog/spdlog.h>

#include <chrono>

#include "tensor_tracer/protocol/message.h"

namespace tt::hub {
namespace {

constexpr auto kLossInterval = std::chrono::seconds(1);

void send_alarm(Client& client, const std::string& message) {
  const bool is_viewer = client.role() == Role::kViewer;
  const nlohmann::json params = {{"level", "error"}, {"message", message}};
  client.send(is_viewer ? protocol::encode_notification("log", params)
                        : protocol::encode_notification("alarm", {{"message", message}}));
}

}  // namespace

void Notices::log(std::string_view level, const std::string& message) {
  const nlohmann::json params = {{"level", level}, {"message", message}};
  audit_log_.event("log", params);
  roster_.broadcast("log", params);
}

void Notices::raise_alarm(const base::Error& error) {
  alarms_.push_back(base::to_string(error));
  spdlog::error("alarm: {}", alarms_.back());
  log("error", alarms_.back());
  if (leaders_.trainer() != nullptr) {
    send_alarm(*leaders_.trainer(), alarms_.back());
  }
}

void Notices::repeat_alarms(Client& client) const {
  for (const std::string& alarm : alarms_) {
    send_alarm(client, alarm);
  }
}

void Notices::tick(Clock::time_point now) {
  if (now - loss_told_ < kLossInterval) {
    return;
  }
  if (const AuditLog::Lost lost = audit_log_.take_lost(); lost.records + lost.lines > 0) {
    loss_told_ = now;
    nlohmann::json params = {{"records", lost.records}, {"where", "recording"}};
    if (lost.lines > 0) {
      params["events"] = lost.lines;
    }
    audit_log_.event("dropped", params);
    roster_.broadcast("dropped", params);
  }
}

}  // namespace tt::hub

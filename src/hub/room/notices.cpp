#include "src/hub/room/notices.h"

#include <spdlog/spdlog.h>

#include <chrono>

#include "tensor_tracer/protocol/message.h"

namespace tt::hub {
namespace {

constexpr auto kLossInterval = std::chrono::seconds(1);
constexpr auto kSizeInterval = std::chrono::seconds(5);

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
  if (leaders_.trainer() != nullptr) send_alarm(*leaders_.trainer(), alarms_.back());
  demand_.update();  // the alarm may be the end of the recording
}

void Notices::repeat_alarms(Client& client) const {
  for (const std::string& alarm : alarms_) send_alarm(client, alarm);
}

void Notices::tick(Clock::time_point now) {
  report_losses(now);
  report_size(now);
}

void Notices::report_size(Clock::time_point now) {
  const record::RecorderCounters counters = audit_log_.counters();
  if (counters.file_bytes == told_bytes_ || now - size_told_ < kSizeInterval) return;
  size_told_ = now;
  told_bytes_ = counters.file_bytes;
  roster_.broadcast("recording",
                    {{"bytes", counters.file_bytes}, {"max_bytes", counters.max_bytes}});
}

void Notices::report_losses(Clock::time_point now) {
  if (now - loss_told_ < kLossInterval) return;
  if (const AuditLog::Lost lost = audit_log_.take_lost(); lost.records + lost.lines > 0) {
    loss_told_ = now;
    nlohmann::json params = {{"records", lost.records}, {"where", "recording"}};
    if (lost.lines > 0) params["events"] = lost.lines;
    audit_log_.event("dropped", params);
    roster_.broadcast("dropped", params);
  }
}

}  // namespace tt::hub

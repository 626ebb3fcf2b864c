#include "src/hub/alarms/alarm_file.h"

#include "src/hub/alarms/alarm_rule.h"
#include "tensor_tracer/base/private_file.h"
#include "tensor_tracer/protocol/json_members.h"
#include "tensor_tracer/protocol/message.h"

namespace tt::hub {
namespace {

using nlohmann::json;
using protocol::member;

constexpr std::size_t kMaxFileBytes = std::size_t{4} << 20U;

}  // namespace

base::Status save_alarms(const std::string& path, const std::string& run_id, Alarms& alarms,
                         std::optional<std::uint64_t> pause_end) {
  json saved = {{"version", 1}, {"run", run_id}, {"alarms", json::array()}};
  for (auto& [name, alarm] : alarms) saved["alarms"].push_back(alarm.save());
  if (pause_end) saved["pause_end"] = *pause_end;
  return base::write_private_file(path, protocol::encode_json(std::move(saved)) + "\n");
}

std::optional<SavedAlarms> load_alarms(const std::string& path, const std::string& run_id) {
  const auto text = base::read_small_file(path, kMaxFileBytes);
  const auto saved = text.ok() ? protocol::parse_json(text.value(), {.bytes = kMaxFileBytes})
                               : base::Result<json>(text.error());
  if (!saved.ok() || protocol::text_of(saved.value(), "run") != run_id) return std::nullopt;
  SavedAlarms loaded{.alarms = {}, .pause_end = protocol::natural(saved.value(), "pause_end")};
  for (const json& item : member(saved.value(), "alarms")) {
    auto rule = protocol::parse_alarm(member(item, "alarm"));
    if (!rule.ok() || !check_alarm(rule.value()).ok()) continue;
    std::string name = rule.value().name;
    loaded.alarms.emplace(std::move(name), std::move(rule).value()).first->second.restore(item);
  }
  return loaded;
}

}  // namespace tt::hub

#include "src/hub/room/demand.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/hub/fanout/subscription.h"
#include "tensor_tracer/base/ranges.h"
#include "tensor_tracer/protocol/json_members.h"
#include "tensor_tracer/protocol/message.h"

namespace tt::hub {
namespace {

using nlohmann::json;
using protocol::member;
using protocol::natural;
using protocol::text_of;

bool watches(const Client& client, const Member& member) {
  return client.role() == Role::kViewer && member.greeted && member.watches;
}

// Layer 0 stands for a point without layers. Nothing if they are unknown.
std::optional<std::vector<base::Range>> layers_of(const json& entry, const json& point) {
  if (const std::string text = text_of(entry, "layers"); !text.empty())
    return base::parse_ranges(text);
  const auto first = natural(point, "first_layer"), last = natural(point, "last_layer");
  if (!first || !last || *last > UINT16_MAX) return std::nullopt;
  return std::vector<base::Range>{{*first, *last}};
}

// The entries whose records viewers, recording and alarms may or may not want. A prompt's entries
// are always traced.
std::vector<TracedEntry> traced_entries(const json& facts) {
  std::vector<TracedEntry> entries;
  std::uint32_t index = 0;
  for (const json& entry : member(member(facts, "plan"), "entries")) {
    const std::uint32_t number = index++;
    if (!text_of(entry, "prompts").empty() || member(entry, "enabled") == json(false)) continue;
    const std::string name = text_of(entry, "point");
    entries.push_back({.index = number,
                       .point = name,
                       .flag = flag_of_point(facts, name),
                       .layers = layers_of(entry, find_point(facts, name))});
  }
  return entries;
}

bool takes(const record::RecordFilter& filter, const TracedEntry& entry) {
  const auto kept = [&](const base::Range& range) {
    const auto next = filter.layers->lower_bound(
        static_cast<std::uint16_t>(std::clamp<std::int64_t>(range.first, 0, UINT16_MAX)));
    return range.first == 0 || (next != filter.layers->end() && *next <= range.second);
  };
  return (!filter.points || filter.points->contains(entry.point)) &&
         (!filter.layers || !entry.layers || std::ranges::any_of(*entry.layers, kept));
}

}  // namespace

void Demand::set_alarms(PlanEntries entries) {
  alarms_ = std::move(entries);
  update();
}

void Demand::update() {
  const auto text =
      std::make_shared<const std::string>(protocol::encode_notification("viewers", describe()));
  for (auto& [client, member] : roster_.members()) {
    if (client->role() == Role::kWorker && member.greeted && member.demand != *text) {
      member.demand = *text;
      client->send(text);
    }
  }
}

json Demand::describe() const {
  const record::RecordFilter* const recorded = audit_log_.traced_filter();
  const auto count = std::ranges::count_if(
      roster_.members(), [](const auto& one) { return watches(*one.first, one.second); });
  const bool is_wanted = recorded != nullptr || alarms_.any();
  json params = {{"count", count}, {"wanted", is_wanted}};
  json some = json::array();
  const std::vector<TracedEntry> entries = traced_entries(run_.facts());
  for (const TracedEntry& entry : entries) {
    const bool is_used = alarms_.contains(entry.index) ||
                         (recorded != nullptr && takes(*recorded, entry)) ||
                         std::ranges::any_of(roster_.members(), [&](const auto& one) {
                           return watches(*one.first, one.second) &&
                                  one.first->queue().subscription().may_want(entry);
                         });
    if (is_used) some.push_back(entry.index);
  }
  if ((count > 0 || is_wanted) && some.size() < entries.size()) {
    params["plan"] = natural(member(run_.facts(), "plan"), "number").value_or(0);
    params["entries"] = std::move(some);
  }
  return params;
}

}  // namespace tt::hub

#include "src/record/export/plans.h"

#include <utility>

#include "tensor_tracer/protocol/json_members.h"

namespace tt::record {
namespace {

using nlohmann::json;

json member(const json& object, const char* name) {
  return object.is_object() ? object.value(name, json()) : json();
}

}  // namespace

Plans::Plans(Recording& recording, const RunInfo& run) {
  constexpr std::size_t kEventsAtOnce = 1024;
  add(member(run.facts, "plan"));
  std::int64_t last = 0;
  while (true) {
    const auto events = recording.events({.after = last, .limit = kEventsAtOnce});
    for (const auto& [id, event] : events) {
      if (event.run == run.run && (event.kind == "plan" || event.kind == "run")) {
        add(member(event.detail, "plan"));
      }
    }
    if (events.size() < kEventsAtOnce) {
      return;
    }
    last = events.back().first;
  }
}

void Plans::add(const json& plan) {
  if (const auto number = natural(plan, "number")) {
    by_number_[*number] = plan;
  }
}

json Plans::entry(std::uint32_t plan, std::uint32_t entry) const {
  const auto known = by_number_.find(plan);
  const json entries = known != by_number_.end() ? member(known->second, "entries") : json();
  return entries.is_array() && entry < entries.size() ? entries[entry] : json();
}

json Plans::compressor(std::uint32_t plan, std::uint32_t entry) const {
  return member(this->entry(plan, entry), "compressor");
}

std::uint64_t Plans::first_token(std::uint32_t plan, std::uint32_t entry) const {
  const json tokens = member(this->entry(plan, entry), "tokens");
  const bool given = tokens.is_array() && !tokens.empty() && tokens[0].is_number_unsigned();
  return given ? tokens[0].get<std::uint64_t>() : 0;
}

}  // namespace tt::record

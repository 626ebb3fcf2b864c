#include "src/hub/fanout/subscription.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "tensor_tracer/base/ranges.h"
#include "tensor_tracer/protocol/json_members.h"

namespace tt::hub {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxListed = 256;
constexpr double kMinRate = 0.001;  // the pause of this rate must fit into the clock
constexpr double kMaxRate = 1000;

bool lies_in(const std::vector<base::Range>& ranges, std::int64_t number) {
  const auto after = std::ranges::upper_bound(ranges, number, {}, &base::Range::first);
  return after != ranges.begin() && number <= std::prev(after)->second;
}

base::Status parse_entries(const json& value, Subscription& out) {
  if (!value.is_array() || value.size() > kMaxListed)
    return base::invalid_argument("entries", "must be \"all\" or a list of at most 256 entries");
  out.entries.emplace();
  for (const json& entry : value) {
    if (!entry.is_number_unsigned() || entry.get<std::uint64_t>() > UINT32_MAX)
      return base::invalid_argument("entries", "an entry is an integer from 0");
    out.entries->insert(entry.get<std::uint32_t>());
  }
  return {};
}

base::Status parse_points(const json& value, const json& facts, Subscription& out) {
  if (!value.is_array() || value.size() > kMaxListed)
    return base::invalid_argument("points", "must be \"all\" or a list of names of trace points");
  out.points.emplace();
  for (const json& name : value) {
    const auto flag = flag_of_point(facts, name);
    if (!flag) {
      return base::invalid_argument(
          "points", "the run has no trace point " + name.dump().substr(0, 64),
          facts.is_object() ? "see run.points" : "no trainer has sent its points yet");
    }
    out.points->insert(*flag);
  }
  return {};
}

base::Status parse_layers(const json& value, Subscription& out) {
  auto ranges =
      value.is_string() ? base::parse_ranges(value.get_ref<const std::string&>()) : std::nullopt;
  if (!ranges || std::ranges::any_of(
                     *ranges, [](const base::Range& range) { return range.second > UINT16_MAX; }))
    return base::invalid_argument("layers", "must be \"all\" or ranges such as \"1-4,8\"");
  std::ranges::sort(*ranges);
  out.layers.emplace();
  for (const base::Range& range : *ranges)
    if (out.layers->empty() || range.first > out.layers->back().second)
      out.layers->push_back(range);
    else
      out.layers->back().second = std::max(out.layers->back().second, range.second);
  return {};
}

base::Status parse_rate(const json& value, Subscription& out) {
  if (!value.is_number() || value.get<double>() < kMinRate || value.get<double>() > kMaxRate) {
    return base::invalid_argument(
        "rate", "must be null or records per second of one key, from 0.001 to 1000");
  }
  out.pause = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(1 / value.get<double>()));
  return {};
}

}  // namespace

bool Subscription::wants(const StoredRecord& record) const {
  return (!entries || entries->contains(record.key.entry)) &&
         (!points || points->contains(record.point)) &&
         (!layers || lies_in(*layers, record.key.layer));
}

bool Subscription::may_want(const TracedEntry& entry) const {
  const auto meets = [&](const base::Range& range) {
    return std::ranges::any_of(*layers, [&](const base::Range& own) {
      return own.first <= range.second && range.first <= own.second;
    });
  };
  return (!entries || entries->contains(entry.index)) &&
         (!points || !entry.flag || points->contains(*entry.flag)) &&
         (!layers || !entry.layers || std::ranges::any_of(*entry.layers, meets));
}

const json& find_point(const json& facts, const json& name) {
  static const json absent;
  for (const json& point : protocol::member(facts, "points"))
    if (name.is_string() && protocol::member(point, "name") == name) return point;
  return absent;
}

std::optional<std::uint16_t> flag_of_point(const json& facts, const json& name) {
  const auto flag = protocol::natural(find_point(facts, name), "flag");
  return flag && *flag <= UINT16_MAX ? std::optional(static_cast<std::uint16_t>(*flag))
                                     : std::nullopt;
}

base::Result<Subscription> parse_subscription(const protocol::Subscribe& request,
                                              const json& facts) {
  Subscription out;
  base::Status parsed;
  const auto given = [&](const std::optional<json>& value) {
    return parsed.ok() && value && *value != "all" && !value->is_null();
  };
  if (given(request.entries)) parsed = parse_entries(*request.entries, out);
  if (given(request.points)) parsed = parse_points(*request.points, facts, out);
  if (given(request.layers)) parsed = parse_layers(*request.layers, out);
  if (given(request.rate)) parsed = parse_rate(*request.rate, out);
  return parsed.ok() ? base::Result(std::move(out)) : parsed.error();
}

}  // namespace tt::hub

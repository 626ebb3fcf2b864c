#include "src/hub/room/run_facts.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "tensor_tracer/protocol/json_members.h"

namespace tt::hub {
namespace {

using nlohmann::json;
using protocol::member;

struct Bound {
  const char* member;
  std::uint64_t most;
};

// The limits are those of a record's header: layer u16, features u32.
constexpr std::uint64_t kMaxLayers = UINT16_MAX;
constexpr std::uint64_t kMaxColumns = UINT32_MAX;
constexpr std::size_t kMaxPoints = UINT16_MAX;
constexpr std::array<Bound, 7> kOfModel = {{{"num_layers", kMaxLayers},
                                            {"hidden_size", kMaxColumns},
                                            {"num_attention_heads", kMaxColumns},
                                            {"num_query_groups", kMaxColumns},
                                            {"ffn_hidden_size", kMaxColumns},
                                            {"vocab_size", kMaxColumns},
                                            {"seq_length", kMaxColumns}}};
constexpr std::array<Bound, 4> kOfPoint = {{{"flag", UINT16_MAX},
                                            {"first_layer", kMaxLayers},
                                            {"last_layer", kMaxLayers},
                                            {"features", kMaxColumns}}};

base::Error damaged_facts(const std::string& where, const std::string& message) {
  return base::invalid_argument(where, "the run's facts are damaged: " + message);
}

template <std::size_t size>
base::Status check_numbers(const json& object, const std::string& name,
                           const std::array<Bound, size>& bounds) {
  if (!object.is_object()) return damaged_facts(name, "it must be an object");
  for (const Bound& bound : bounds) {
    const auto value = object.find(bound.member);
    if (value != object.end() &&
        (!value->is_number_unsigned() || value->get<std::uint64_t>() > bound.most)) {
      return damaged_facts(name + "." + bound.member,
                           "it must be a whole number from 0 to " + std::to_string(bound.most));
    }
  }
  return {};
}

base::Status check_points(const json& points) {
  if (!points.is_array() || points.size() > kMaxPoints) {
    return damaged_facts("points",
                         "it must be a list of " + std::to_string(kMaxPoints) + " at most");
  }
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::string name = "points[" + std::to_string(i) + "]";
    if (base::Status point = check_numbers(points[i], name, kOfPoint); !point.ok()) return point;
  }
  return {};
}

std::uint64_t number_of(const json& point, const char* name) {
  return protocol::natural(point, name).value_or(0);
}

// `row` gets the layers of both; layer 0 is outside the layers.
void join_layers(json& row, const json& other) {
  if (number_of(row, "last_layer") > 0 && number_of(other, "last_layer") > 0) {
    row["first_layer"] = std::min(number_of(row, "first_layer"), number_of(other, "first_layer"));
    row["last_layer"] = std::max(number_of(row, "last_layer"), number_of(other, "last_layer"));
  }
}

}  // namespace

base::Status check_facts(const json& facts) {
  if (!facts.is_object()) return damaged_facts("run", "they must be a JSON object");
  if (const auto model = facts.find("model"); model != facts.end()) {
    if (base::Status numbers = check_numbers(*model, "model", kOfModel); !numbers.ok())
      return numbers;
  }
  const auto points = facts.find("points");
  return points == facts.end() ? base::Status() : check_points(*points);
}

base::Result<PointNumbers> add_points(json& facts, const json& points) {
  PointNumbers numbers;
  json& rows = facts["points"];
  for (const json& point : points) {
    const json& name = member(point, "name");
    const std::uint64_t number = number_of(point, "flag");
    const auto same =
        std::ranges::find_if(rows, [&](const json& row) { return member(row, "name") == name; });
    if (same != rows.end()) {
      join_layers(*same, point);
      const std::uint64_t of_run = number_of(*same, "flag");
      if (number != of_run)
        numbers[static_cast<std::uint16_t>(number)] = static_cast<std::uint16_t>(of_run);
      continue;
    }
    const auto taken = std::ranges::find_if(
        rows, [&](const json& row) { return number_of(row, "flag") == number; });
    if (taken != rows.end()) {
      return base::invalid_argument("run.points",
                                    "number " + std::to_string(number) + " belongs to " +
                                        member(*taken, "name").dump() + " and to " + name.dump(),
                                    "give the points of each stage different numbers");
    }
    rows.push_back(point);
  }
  return numbers;
}

base::Error damaged(const std::string& path, const record::RunInfo& run, const base::Error& why) {
  return {.code = "damaged_recording",
          .message = "run " + run.id + ": " + why.message + " (" + why.where + ")",
          .where = path,
          .remedy = "give another run of the file, or a copy of it that is whole"};
}

}  // namespace tt::hub

#include "src/hub/room/run_facts.h"

#include <array>
#include <cstdint>
#include <string>

namespace tt::hub {
namespace {

using nlohmann::json;

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
  if (!object.is_object()) {
    return damaged_facts(name, "it must be an object");
  }
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
    if (base::Status point = check_numbers(points[i], name, kOfPoint); !point.ok()) {
      return point;
    }
  }
  return {};
}

}  // namespace

base::Status check_facts(const json& facts) {
  if (!facts.is_object()) {
    return damaged_facts("run", "they must be a JSON object");
  }
  if (const auto model = facts.find("model"); model != facts.end()) {
    if (base::Status numbers = check_numbers(*model, "model", kOfModel); !numbers.ok()) {
      return numbers;
    }
  }
  const auto points = facts.find("points");
  return points == facts.end() ? base::Status() : check_points(*points);
}

base::Error damaged(const std::string& path, const record::RunInfo& run, const base::Error& why) {
  return {.code = "damaged_recording",
          .message = "run " + run.id + ": " + why.message + " (" + why.where + ")",
          .where = path,
          .remedy = "give another run of the file, or a copy of it that is whole"};
}

}  // namespace tt::hub

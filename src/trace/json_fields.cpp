#include "src/trace/json_fields.h"

#include <algorithm>

namespace tt::trace {

using nlohmann::json;

base::Status refuse_unknown_keys(const json& object, const std::string& where,
                                 std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    std::string names;
    for (const std::string_view name : known)
      names += (names.empty() ? "" : ", ") + std::string(name);
    return base::invalid_argument(where, "unknown key \"" + key + "\"", "known keys: " + names);
  }
  return {};
}

base::Status check_integer(const json& value, const std::string& where, std::int64_t least,
                           std::int64_t most) {
  const bool fits = value.is_number_unsigned() ? value.get<std::uint64_t>() <= 1ULL << 62
                                               : value.is_number_integer();
  if (fits && value.get<std::int64_t>() >= least && value.get<std::int64_t>() <= most) return {};
  return base::invalid_argument(where, value.dump() + " is not a whole number from " +
                                           std::to_string(least) + " to " + std::to_string(most));
}

base::Status parse_integer(const json& object, const char* key, const std::string& where,
                           std::int64_t least, std::int64_t most, std::int64_t& out) {
  if (!object.contains(key)) return {};
  const json& value = object[key];
  if (auto status = check_integer(value, where + "." + key, least, most); !status) return status;
  out = value.get<std::int64_t>();
  return {};
}

}  // namespace tt::trace

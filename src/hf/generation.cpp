#include "tensor_tracer/hf/generation.h"

#include <filesystem>
#include <string>
#include <system_error>

namespace tt::hf {
namespace {

using nlohmann::json;

constexpr const char* kStopKey = "eos_token_id";

}  // namespace

base::Result<std::set<std::int64_t>> read_stop_ids(const ModelFolder& folder) {
  const std::string path = folder.path + "/generation_config.json";
  json from = folder.config;
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    auto read = read_json_file(path, kMaxConfigBytes);
    if (!read) return read.error();
    if (read.value().contains(kStopKey)) from = std::move(read).value();
  }
  json named = from.value(kStopKey, json());
  if (named.is_null()) return std::set<std::int64_t>();
  if (!named.is_array()) named = json::array({named});
  std::set<std::int64_t> ids;
  for (const json& id : named) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0)
      return base::invalid_argument(kStopKey, "is " + named.dump() + ", not token ids",
                                    "give the files of one model");
    ids.insert(id.get<std::int64_t>());
  }
  return ids;
}

}  // namespace tt::hf

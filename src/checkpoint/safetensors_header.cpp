#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "src/checkpoint/tensor_bytes.h"

namespace tt::checkpoint {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxSafetensorsHeaderBytes = 8 << 20;
constexpr int kMaxHeaderDepth = 4;  // header, entry, list of numbers, number

std::optional<Number> safetensors_number(const json& dtype) {
  if (dtype == "F64") return Number::kF64;
  if (dtype == "F32") return Number::kF32;
  if (dtype == "F16") return Number::kF16;
  if (dtype == "BF16") return Number::kBf16;
  return std::nullopt;
}

// Drops values that are nested deeper than a header can be, so that they take no memory.
json parse_header(std::string_view text) {
  const auto keep = [](int depth, json::parse_event_t /*event*/, json& /*value*/) {
    return depth <= kMaxHeaderDepth;
  };
  return json::parse(text.begin(), text.end(), keep, false);
}

// A list of whole numbers up to 2^62.
std::optional<std::vector<std::int64_t>> numbers_of(const json& list) {
  constexpr auto kMaxOffset = std::uint64_t{1} << 62U;
  if (!list.is_array() || list.size() > 64) return std::nullopt;
  std::vector<std::int64_t> numbers;
  for (const json& one : list) {
    if (!one.is_number_unsigned() || one.get<std::uint64_t>() > kMaxOffset) return std::nullopt;
    numbers.push_back(one.get<std::int64_t>());
  }
  return numbers;
}

json member(const json& entry, const char* key) {
  return entry.is_object() ? entry.value(key, json()) : json();
}

base::Result<TensorBytes> read_entry(const json& entry, std::size_t data_begin) {
  const json dtype = member(entry, "dtype");
  if (!dtype.is_string()) return bad_tensor("its header is wrong");
  const auto number = safetensors_number(dtype);
  if (!number) return bad_tensor("it is of dtype " + dtype.get<std::string>().substr(0, 64));
  const auto offsets = numbers_of(member(entry, "data_offsets"));
  auto shape = numbers_of(member(entry, "shape"));
  if (!offsets || !shape || offsets->size() != 2) return bad_tensor("its header is wrong");
  const std::int64_t begin = offsets->front(), end = offsets->back();
  if (begin > end) return bad_tensor("its offsets are wrong");
  auto wanted = static_cast<std::int64_t>(bytes_of(*number));
  for (const std::int64_t extent : *shape) {
    if (extent > 0 && wanted > (end - begin) / extent)
      return bad_tensor("its shape does not fit its size");
    wanted *= extent;
  }
  if (wanted != end - begin) return bad_tensor("its shape does not fit its size");
  return TensorBytes{*number,
                     std::move(*shape),
                     {},
                     0,
                     data_begin + static_cast<std::size_t>(begin),
                     static_cast<std::size_t>(end - begin)};
}

}  // namespace

base::Result<TensorBytes> find_in_safetensors(std::string_view file, std::string_view name) {
  std::uint64_t length = 0;
  if (file.size() > 8) std::memcpy(&length, file.data(), 8);
  if (length == 0 || length > file.size() - 8) return bad_tensor("it is not a safetensors file");
  if (length > kMaxSafetensorsHeaderBytes) return bad_tensor("its header is longer than 8 MiB");
  const json header = parse_header(file.substr(8, length));
  if (!header.is_object()) return bad_tensor("its header is not JSON");
  const json* only = nullptr;
  for (const auto& [key, entry] : header.items()) {
    if (key == "__metadata__" || (!name.empty() && key != name)) continue;
    if (only != nullptr) return bad_tensor("it holds several tensors");
    only = &entry;
  }
  if (only == nullptr) {
    return bad_tensor("it holds no tensor" +
                      (name.empty() ? "" : " \"" + std::string(name) + "\""));
  }
  auto found = read_entry(*only, 8 + length);
  if (!found) return found;
  return check_tensor(std::move(found).value(), file.size());
}

}  // namespace tt::checkpoint

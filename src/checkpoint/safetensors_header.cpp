#include "src/checkpoint/safetensors_header.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "src/checkpoint/tensor_bytes.h"

namespace tt::checkpoint {
namespace {

using nlohmann::json;

constexpr int kMaxHeaderDepth = 4;  // header, entry, list of numbers, number
constexpr std::size_t kMaxListed = 64;
constexpr const char* kMetadata = "__metadata__";

// Drops values that a header cannot hold, so that they take no memory: those nested too deep, lists
// in place of an entry, and numbers of long lists, of which one too many stays.
base::Result<json> parse_header(std::string_view text) {
  std::set<std::string> names;
  std::string repeated;
  std::size_t listed = 0;
  const auto keep = [&](int depth, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::key && depth == 1 && !names.insert(value).second)
      repeated = value;
    if (event == json::parse_event_t::array_start) {
      listed = 0;
      return 1 < depth && depth <= kMaxHeaderDepth;
    }
    if (event == json::parse_event_t::value && depth == 3) return listed++ <= kMaxListed;
    return depth <= kMaxHeaderDepth;
  };
  json header = json::parse(text.begin(), text.end(), keep, false);
  if (!header.is_object()) return bad_tensor("its header is not JSON");
  if (!repeated.empty()) return bad_tensor("it names the tensor \"" + repeated + "\" twice");
  return header;
}

// A list of whole numbers up to 2^62.
std::optional<std::vector<std::int64_t>> numbers_of(const json& list) {
  constexpr auto kMaxOffset = std::uint64_t{1} << 62U;
  if (!list.is_array() || list.size() > kMaxListed) return std::nullopt;
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

base::Result<SafetensorsEntry> read_entry(const json& entry, std::size_t data_begin,
                                          std::size_t file_bytes) {
  const json dtype = member(entry, "dtype");
  const auto offsets = numbers_of(member(entry, "data_offsets"));
  auto shape = numbers_of(member(entry, "shape"));
  if (!dtype.is_string() || !offsets || !shape || offsets->size() != 2)
    return bad_tensor("its header is wrong");
  const auto begin = static_cast<std::size_t>(offsets->front());
  const auto end = static_cast<std::size_t>(offsets->back());
  if (begin > end || end > file_bytes - data_begin) return bad_tensor("its offsets are wrong");
  return SafetensorsEntry{dtype, std::move(*shape), data_begin + begin, data_begin + end};
}

base::Status refuse_overlaps(const SafetensorsHeader& header) {
  std::vector<std::pair<std::size_t, std::size_t>> spans;
  for (const auto& [name, entry] : header.tensors)
    if (entry.begin < entry.end) spans.emplace_back(entry.begin, entry.end);
  std::ranges::sort(spans);
  for (std::size_t i = 1; i < spans.size(); ++i)
    if (spans[i].first < spans[i - 1].second) return bad_tensor("its tensors overlap");
  return {};
}

std::optional<std::size_t> bytes_of_shape(const std::vector<std::int64_t>& shape,
                                          std::size_t number, std::size_t most) {
  std::size_t bytes = number;
  for (const std::int64_t extent : shape) {
    if (extent > 0 && bytes > most / static_cast<std::size_t>(extent)) return std::nullopt;
    bytes *= static_cast<std::size_t>(extent);
  }
  return bytes;
}

std::optional<Number> safetensors_number(const std::string& dtype) {
  if (dtype == "F64") return Number::kF64;
  if (dtype == "F32") return Number::kF32;
  if (dtype == "F16") return Number::kF16;
  if (dtype == "BF16") return Number::kBf16;
  return std::nullopt;
}

}  // namespace

base::Result<SafetensorsHeader> read_safetensors_header(std::string_view file,
                                                        std::size_t file_bytes) {
  std::uint64_t length = 0;
  if (file.size() > 8) std::memcpy(&length, file.data(), 8);
  if (length == 0 || length > file.size() - 8) return bad_tensor("it is not a safetensors file");
  if (length > kMaxSafetensorsHeaderBytes) return bad_tensor("its header is longer than 100 MiB");
  auto parsed = parse_header(file.substr(8, length));
  if (!parsed) return parsed.error();
  SafetensorsHeader header{{}, {}, 8 + length};
  for (const auto& [key, value] : parsed.value().items()) {
    if (key == kMetadata) continue;
    auto entry = read_entry(value, header.bytes, file_bytes);
    if (!entry) return entry.error();
    header.tensors.emplace(key, std::move(entry).value());
  }
  const json metadata = member(parsed.value(), kMetadata);
  for (const auto& [key, value] : metadata.items())
    if (value.is_string()) header.metadata.emplace(key, value);
  if (auto status = refuse_overlaps(header); !status) return status.error();
  return header;
}

base::Result<TensorBytes> find_in_safetensors(std::string_view file, std::string_view name) {
  const auto header = read_safetensors_header(file, file.size());
  if (!header) return header.error();
  const SafetensorsEntry* only = nullptr;
  for (const auto& [key, entry] : header.value().tensors) {
    if (!name.empty() && key != name) continue;
    if (only != nullptr) return bad_tensor("it holds several tensors");
    only = &entry;
  }
  if (only == nullptr) {
    return bad_tensor("it holds no tensor" +
                      (name.empty() ? "" : " \"" + std::string(name) + "\""));
  }
  const auto number = safetensors_number(only->dtype);
  if (!number) return bad_tensor("it is of dtype " + only->dtype.substr(0, 64));
  const std::size_t size = only->end - only->begin;
  if (bytes_of_shape(only->shape, bytes_of(*number), size) != size)
    return bad_tensor("its shape does not fit its size");
  return check_tensor({*number, only->shape, {}, 0, only->begin, size}, file.size());
}

}  // namespace tt::checkpoint

#include "tensor_tracer/checkpoint/tensor_table.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "src/checkpoint/safetensors_header.h"

namespace tt::checkpoint {
namespace {

using nlohmann::json;
using Shape = std::vector<std::int64_t>;

constexpr const char* kShardingInfo = "DCP_SHARDING_INFO";
constexpr std::size_t kMaxParts = 4096;
constexpr std::size_t kMaxDims = 8;
constexpr int kMaxInfoDepth = 4;  // tensors, entry, list of offsets, number

struct DtypeRow {
  std::string_view name;   // in safetensors files
  std::string_view torch;  // PyTorch's name
  std::size_t bytes;
};
constexpr DtypeRow kDtypes[] = {
    {"F64", "float64", 8}, {"F32", "float32", 4}, {"F16", "float16", 2}, {"BF16", "bfloat16", 2},
    {"I64", "int64", 8},   {"I32", "int32", 4},   {"I16", "int16", 2},   {"I8", "int8", 1},
    {"U64", "uint64", 8},  {"U32", "uint32", 4},  {"U16", "uint16", 2},  {"U8", "uint8", 1},
    {"BOOL", "bool", 1}};

const DtypeRow* find_dtype(std::string_view name) {
  const auto* const found = std::ranges::find(kDtypes, name, &DtypeRow::name);
  return found == std::end(kDtypes) ? nullptr : found;
}

base::Error damaged_tensors(const std::string& path, const std::string& message) {
  return {"damaged", message, path, "give an undamaged copy of the file"};
}

// The offsets of a part in its tensor; zeros if the file says nothing of it.
std::optional<Shape> offsets_of(const json& sharding, const std::string& name, std::size_t dims) {
  const json info = sharding.value(name, json::object());
  const json saved = info.is_object() ? info.value("saved_offsets", json()) : json();
  if (saved.is_null()) return Shape(dims, 0);
  if (!saved.is_array() || saved.size() != dims) return std::nullopt;
  Shape offsets;
  for (const json& one : saved) {
    if (!one.is_number_unsigned() || one.get<std::uint64_t>() >> 62U != 0) return std::nullopt;
    offsets.push_back(one);
  }
  return offsets;
}

// Drops values that are nested deeper than the information can be.
json sharding_of(const SafetensorsHeader& header) {
  const auto text = header.metadata.find(kShardingInfo);
  if (text == header.metadata.end()) return json::object();
  const auto keep = [](int depth, json::parse_event_t, json&) { return depth <= kMaxInfoDepth; };
  return json::parse(text->second, keep, false);
}

// Nothing: above 2^63.
std::optional<std::int64_t> product_of(const Shape& shape) {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape)
    if (__builtin_mul_overflow(product, extent, &product)) return std::nullopt;
  return product;
}

// The size of a dtype that is not known here may be anything.
bool fits(const SafetensorsEntry& entry) {
  const auto count = product_of(entry.shape);
  if (entry.shape.size() > kMaxDims || !count) return false;
  const auto size = bytes_of_dtype(entry.dtype);
  const auto bytes = entry.end - entry.begin;
  return !size || (bytes % *size == 0 && static_cast<std::size_t>(*count) == bytes / *size);
}

bool meet(const TensorTable::Part& a, const TensorTable::Part& b) {
  for (std::size_t dim = 0; dim < a.shape.size(); ++dim) {
    if (a.offsets[dim] + a.shape[dim] <= b.offsets[dim]) return false;
    if (b.offsets[dim] + b.shape[dim] <= a.offsets[dim]) return false;
  }
  return true;
}

// The first characters of a text of a file.
std::string shortened(const std::string& text) { return text.substr(0, 64); }

}  // namespace

std::optional<std::size_t> bytes_of_dtype(std::string_view name) {
  const DtypeRow* const row = find_dtype(name);
  return row != nullptr ? std::optional(row->bytes) : std::nullopt;
}

std::string torch_name_of_dtype(std::string_view name) {
  const DtypeRow* const row = find_dtype(name);
  return std::string(row != nullptr ? row->torch : name);
}

std::optional<std::string> safetensors_name_of(std::string_view torch_name) {
  const auto* const found = std::ranges::find(kDtypes, torch_name, &DtypeRow::torch);
  return found == std::end(kDtypes) ? std::nullopt : std::optional(std::string(found->name));
}

base::Status TensorTable::add_file(const std::string& path, std::string_view bytes) {
  auto header = read_safetensors_header(bytes, bytes.size());
  if (!header) return damaged_tensors(path, header.error().message);
  const json sharding = sharding_of(header.value());
  if (!sharding.is_object()) return damaged_tensors(path, "its DCP_SHARDING_INFO is not JSON");
  for (const auto& [name, entry] : header.value().tensors) {
    if (!fits(entry)) return damaged_tensors(path, name + ": its shape does not fit its size");
    auto offsets = offsets_of(sharding, name, entry.shape.size());
    if (!offsets) return damaged_tensors(path, name + ": its offsets are wrong");
    const auto [known, is_new] = tensors_.emplace(name, Tensor{entry.dtype, entry.shape, {}});
    if (!is_new && !sharding.contains(name))
      return damaged_tensors(path, shortened(name) + " is in another file too");
    Tensor& tensor = known->second;
    if (tensor.dtype != entry.dtype || tensor.shape.size() != entry.shape.size()) {
      return damaged_tensors(path,
                             name + " differs in dtype or dims from its part in another file");
    }
    for (std::size_t dim = 0; dim < entry.shape.size(); ++dim)
      tensor.shape[dim] = std::max(tensor.shape[dim], (*offsets)[dim] + entry.shape[dim]);
    tensor.parts.push_back(
        {files_.size(), entry.begin, entry.end, entry.shape, std::move(*offsets)});
  }
  files_.push_back({path, bytes.size(), header.value().bytes, std::move(header.value().metadata)});
  return {};
}

base::Status TensorTable::complete() {
  for (auto& [name, tensor] : tensors_)
    if (auto status = complete(name, tensor); !status) return status;
  return {};
}

// The parts of a tensor cover it, and no two of them share an element. Copies of a part are
// dropped.
base::Status TensorTable::complete(const std::string& name, Tensor& tensor) const {
  std::vector<Part>& parts = tensor.parts;
  const std::string& file = files_[parts.back().file].path;
  std::set<Shape> seen;
  std::erase_if(parts, [&](const Part& part) {
    Shape box = part.offsets;
    box.insert(box.end(), part.shape.begin(), part.shape.end());
    return !seen.insert(std::move(box)).second;
  });
  if (parts.size() > kMaxParts)
    return damaged_tensors(file, shortened(name) + " has more than 4096 parts");
  std::int64_t count = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (__builtin_add_overflow(count, *product_of(parts[i].shape), &count))
      return damaged_tensors(file, shortened(name) + " is larger than 2^63");
    for (std::size_t j = 0; j < i; ++j)
      if (meet(parts[i], parts[j]))
        return damaged_tensors(file, "parts of " + shortened(name) + " overlap");
  }
  if (count != product_of(tensor.shape))
    return damaged_tensors(file, "parts of " + shortened(name) + " are missing");
  return {};
}

}  // namespace tt::checkpoint

#include "tensor_tracer/checkpoint/tensor_store.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "src/checkpoint/dtypes.h"
#include "src/checkpoint/safetensors_header.h"
#include "tensor_tracer/base/hash.h"
#include "tensor_tracer/base/mapped_file.h"

namespace tt::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kShardingInfo = "DCP_SHARDING_INFO";
constexpr std::size_t kMaxParts = 4096;
constexpr std::size_t kMaxDims = 8;
constexpr const char* kSameModel = "give the files of the same model";

base::Error damaged(const std::string& path, const std::string& message) {
  return {"damaged", message, path, "give an undamaged copy of the file"};
}

base::Error missing(const std::string& name) {
  return {"not_found", "there is no tensor " + name, "", kSameModel};
}

// Equal in all dims but the first.
bool fit_along_0(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  return !a.empty() && a.size() == b.size() && std::equal(a.begin() + 1, a.end(), b.begin() + 1);
}

// The offsets of a part in its tensor; zeros if the file says nothing of it.
std::optional<std::vector<std::int64_t>> offsets_of(const json& sharding, const std::string& name,
                                                    std::size_t dims) {
  const json info = sharding.value(name, json::object());
  const json saved = info.is_object() ? info.value("saved_offsets", json()) : json();
  if (saved.is_null()) return std::vector<std::int64_t>(dims, 0);
  if (!saved.is_array() || saved.size() != dims) return std::nullopt;
  std::vector<std::int64_t> offsets;
  for (const json& one : saved) {
    if (!one.is_number_unsigned() || one.get<std::uint64_t>() >> 62U != 0) return std::nullopt;
    offsets.push_back(one);
  }
  return offsets;
}

json sharding_of(const SafetensorsHeader& header) {
  const auto text = header.metadata.find(kShardingInfo);
  if (text == header.metadata.end()) return json::object();
  return json::parse(text->second, nullptr, false);
}

// Nothing: above 2^63.
std::optional<std::int64_t> product_of(const std::vector<std::int64_t>& shape) {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape)
    if (__builtin_mul_overflow(product, extent, &product)) return std::nullopt;
  return product;
}

bool fits(const SafetensorsEntry& entry, at::ScalarType dtype) {
  const auto count = product_of(entry.shape);
  const auto bytes = entry.end - entry.begin;
  const std::size_t size = c10::elementSize(dtype);
  return entry.shape.size() <= kMaxDims && count && bytes % size == 0 &&
         static_cast<std::size_t>(*count) == bytes / size;
}

// Narrows dim `dim` to the elements that both have. `first`: the logical index of the source's
// first element. The target holds the interval. False: there is no such element.
bool narrow_both(at::Tensor& source, at::Tensor& target, std::int64_t dim, std::int64_t first,
                 const mesh::Interval& interval) {
  const std::int64_t begin = std::max(first, interval.begin);
  const std::int64_t end = std::min(first + source.size(dim), interval.end);
  if (begin >= end) return false;
  source = source.narrow(dim, begin - first, end - begin);
  target = target.narrow(dim, begin - interval.begin + interval.local_begin, end - begin);
  return true;
}

std::string fingerprint_of(std::string_view file, std::size_t header_bytes) {
  constexpr std::size_t kSamples = 1024, kSampleBytes = 64;
  std::uint64_t hash = base::hash_of(file.substr(0, header_bytes));
  for (std::size_t i = 0; i < kSamples; ++i)
    hash = base::mix(hash, base::hash_of(file.substr(i * (file.size() / kSamples), kSampleBytes)));
  return fmt::format("{} bytes (hash of samples {:016x})", file.size(), hash);
}

}  // namespace

base::Result<std::vector<std::string>> TensorStore::files_of(const std::string& folder) {
  std::vector<std::string> files;
  bool has_distcp = false;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path().filename());
    has_distcp = has_distcp || entry.path().extension() == ".distcp";
  }
  std::ranges::sort(files);
  if (!files.empty()) return files;
  if (has_distcp) {
    return base::Error{"invalid_argument", "holds .distcp files, which need Python to be read",
                       folder,
                       "save with torch.distributed.checkpoint.HuggingFaceStorageWriter, or "
                       "convert: python -m torch.distributed.checkpoint.format_utils "
                       "dcp_to_torch FOLDER FILE.pt, then safetensors.torch.save_file"};
  }
  return base::Error{"not_found", "holds no .safetensors file", folder,
                     "give the folder of a checkpoint"};
}

base::Result<TensorStore> TensorStore::open(const std::string& folder,
                                            const std::vector<std::string>& files) {
  TensorStore store;
  for (const std::string& file : files)
    if (auto status = store.add_file((fs::path(folder) / file).string()); !status)
      return status.error();
  for (const auto& [name, parts] : store.parts_)
    if (auto status = store.complete(name); !status) return status.error();
  return store;
}

base::Status TensorStore::add_file(const std::string& path) {
  const auto file = base::map_file(path);
  if (!file) return file.error();
  const std::string_view bytes = *file.value();
  const auto header = read_safetensors_header(bytes, bytes.size());
  if (!header) return damaged(path, header.error().message);
  fingerprints_[fs::path(path).filename()] = fingerprint_of(bytes, header.value().bytes);
  const json sharding = sharding_of(header.value());
  if (!sharding.is_object()) return damaged(path, "its DCP_SHARDING_INFO is not JSON");
  for (const auto& [name, entry] : header.value().tensors) {
    const auto dtype = dtype_of_safetensors(entry.dtype);
    if (!dtype) return damaged(path, name + " has the unknown dtype " + entry.dtype.substr(0, 64));
    if (!fits(entry, *dtype)) return damaged(path, name + ": its shape does not fit its size");
    auto offsets = offsets_of(sharding, name, entry.shape.size());
    if (!offsets) return damaged(path, name + ": its offsets are wrong");
    const auto [known, is_new] = facts_.emplace(name, Facts{*dtype, entry.shape});
    if (known->second.dtype != *dtype || known->second.shape.size() != entry.shape.size())
      return damaged(path, name + " differs in dtype or dims from its part in another file");
    for (std::size_t dim = 0; dim < entry.shape.size(); ++dim) {
      std::int64_t& full = known->second.shape[dim];
      full = std::max(full, (*offsets)[dim] + entry.shape[dim]);
    }
    parts_[name].push_back({file.value(), entry.begin, entry.shape, std::move(*offsets), *dtype});
    last_file_[name] = path;
  }
  return {};
}

// The parts of a tensor cover it, and no two of them share an element. Copies of a part are
// dropped.
base::Status TensorStore::complete(const std::string& name) {
  std::vector<Part>& parts = parts_[name];
  const std::string& file = last_file_[name];
  std::set<std::vector<std::int64_t>> seen;
  std::erase_if(parts, [&](const Part& part) {
    std::vector<std::int64_t> box = part.offsets;
    box.insert(box.end(), part.shape.begin(), part.shape.end());
    return !seen.insert(std::move(box)).second;
  });
  if (parts.size() > kMaxParts) return damaged(file, name + " has more than 4096 parts");
  const auto meet = [](const Part& a, const Part& b) {
    for (std::size_t dim = 0; dim < a.shape.size(); ++dim) {
      if (a.offsets[dim] + a.shape[dim] <= b.offsets[dim]) return false;
      if (b.offsets[dim] + b.shape[dim] <= a.offsets[dim]) return false;
    }
    return true;
  };
  std::int64_t count = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    count += *product_of(parts[i].shape);
    for (std::size_t j = 0; j < i; ++j)
      if (meet(parts[i], parts[j])) return damaged(file, "parts of " + name + " overlap");
  }
  if (count != product_of(facts_[name].shape))
    return damaged(file, "parts of " + name + " are missing");
  return {};
}

std::vector<std::string> TensorStore::names() const {
  std::vector<std::string> names;
  for (const auto& [name, facts] : facts_) names.push_back(name);
  return names;
}

std::optional<std::vector<std::int64_t>> TensorStore::shape_of(const std::string& name) const {
  const auto found = facts_.find(name);
  return found == facts_.end() ? std::nullopt : std::optional(found->second.shape);
}

base::Status TensorStore::define(const std::string& name, const Joined& of) {
  Facts joined;
  std::vector<Part> parts;
  for (const std::string& source : of.sources) {
    const auto found = facts_.find(source);
    if (found == facts_.end()) return missing(source);
    Facts facts = found->second;
    if (of.transposed && facts.shape.size() != 2)
      return base::Error{"invalid_argument", source + " is not a matrix", "", kSameModel};
    if (of.transposed) std::ranges::reverse(facts.shape);
    const bool is_first = parts.empty();
    if (!at::isFloatingType(facts.dtype))
      return base::Error{"invalid_argument", source + " holds whole numbers", "", kSameModel};
    if (!is_first && !fit_along_0(facts.shape, joined.shape)) {
      return base::Error{"invalid_argument",
                         source + " does not fit " + of.sources.front() +
                             ": they have the shapes " + json(facts.shape).dump() + " and " +
                             json(joined.shape).dump(),
                         "", kSameModel};
    }
    for (Part part : parts_.at(source)) {
      if (of.transposed) {
        std::ranges::reverse(part.shape);
        std::ranges::reverse(part.offsets);
        part.transposed = !part.transposed;
      }
      if (!is_first) part.offsets.front() += joined.shape.front();
      parts.push_back(std::move(part));
    }
    if (is_first)
      joined = facts;
    else
      joined.shape.front() += facts.shape.front();
  }
  facts_[name] = joined;
  parts_[name] = std::move(parts);
  return {};
}

// `dim`: the dim of the interval; the other dims are copied whole. -1: all dims.
void TensorStore::copy_interval(const std::string& name, std::int64_t dim,
                                const mesh::Interval& interval, const at::Tensor& out) const {
  for (const Part& part : parts_.at(name)) {
    const auto options = at::device(at::kCPU).dtype(part.dtype);
    void* const data = const_cast<char*>(part.file->data()) + part.begin;
    std::vector<std::int64_t> stored = part.shape;
    if (part.transposed) std::ranges::reverse(stored);
    at::Tensor source = at::from_blob(data, stored, options);
    if (part.transposed) source = source.t();
    at::Tensor target = out;
    bool meets = true;
    for (std::int64_t at = 0; meets && at < source.dim(); ++at) {
      const mesh::Interval whole{0, facts_.at(name).shape[static_cast<std::size_t>(at)], 0, 0};
      const std::int64_t first = part.offsets[static_cast<std::size_t>(at)];
      meets = narrow_both(source, target, at, first, at == dim ? interval : whole);
    }
    if (meets) target.copy_(source);
  }
}

base::Status TensorStore::read_shard(const std::string& name,
                                     const std::vector<std::int64_t>& full_shape,
                                     const mesh::Placement& placement, int rank, int ranks,
                                     at::Tensor& out) const {
  const auto facts = facts_.find(name);
  if (facts == facts_.end()) return missing(name);
  if (facts->second.shape != full_shape) {
    return base::Error{"invalid_argument",
                       name + " has the shape " + json(facts->second.shape).dump() + ", not " +
                           json(full_shape).dump(),
                       "", kSameModel};
  }
  const at::NoGradGuard no_grad;
  if (!placement.is_sharded()) {
    copy_interval(name, -1, {}, out);
    return {};
  }
  for (const mesh::Interval& interval : mesh::intervals_of_rank(placement, rank, ranks))
    copy_interval(name, placement.dim, interval, out);
  return {};
}

}  // namespace tt::checkpoint

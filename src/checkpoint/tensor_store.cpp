#include "tensor_tracer/checkpoint/tensor_store.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "src/checkpoint/dtypes.h"
#include "tensor_tracer/base/hash.h"
#include "tensor_tracer/base/mapped_file.h"
#include "tensor_tracer/checkpoint/tensor_table.h"

namespace tt::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

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
  base::release_pages(file);
  return fmt::format("{} bytes (hash of samples {:016x})", file.size(), hash);
}

}  // namespace

base::Result<TensorStore> TensorStore::open(const std::string& folder,
                                            const std::vector<std::string>& files) {
  TensorTable table;
  std::vector<base::SharedBytes> mapped;
  for (const std::string& file : files) {
    const std::string path = (fs::path(folder) / file).string();
    const auto bytes = base::map_file(path);
    if (!bytes) return bytes.error();
    mapped.push_back(bytes.value());
    if (auto status = table.add_file(path, *mapped.back()); !status) return status.error();
  }
  if (auto status = table.complete(); !status) return status.error();
  TensorStore store;
  for (std::size_t i = 0; i < mapped.size(); ++i) {
    const TensorTable::File& file = table.files()[i];
    store.fingerprints_[fs::path(file.path).filename()] =
        fingerprint_of(*mapped[i], file.header_bytes);
  }
  for (const auto& [name, tensor] : table.tensors()) {
    const auto dtype = dtype_of_safetensors(tensor.dtype);
    if (!dtype) {
      return damaged(table.files()[tensor.parts.front().file].path,
                     name + " has the unknown dtype " + tensor.dtype.substr(0, 64));
    }
    store.facts_[name] = {*dtype, tensor.shape};
    for (const TensorTable::Part& part : tensor.parts)
      store.parts_[name].push_back({mapped[part.file],
                                    mapped[part.file]->substr(part.begin, part.end - part.begin),
                                    part.shape, part.offsets, *dtype});
  }
  return store;
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

std::optional<at::ScalarType> TensorStore::dtype_of(const std::string& name) const {
  const auto found = facts_.find(name);
  return found == facts_.end() ? std::nullopt : std::optional(found->second.dtype);
}

base::Result<at::Tensor> TensorStore::read(const std::string& name) const {
  const auto facts = facts_.find(name);
  if (facts == facts_.end()) return missing(name);
  at::Tensor whole =
      at::empty(facts->second.shape, at::device(at::kCPU).dtype(facts->second.dtype));
  const auto status =
      read_shard(name, facts->second.shape, mesh::Placement::replicate(), 0, 1, whole);
  if (!status) return status.error();
  return whole;
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
    void* const data = const_cast<char*>(part.bytes.data());
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
  if (placement.is_sharded())
    for (const mesh::Interval& interval : mesh::intervals_of_rank(placement, rank, ranks))
      copy_interval(name, placement.dim, interval, out);
  else
    copy_interval(name, -1, {}, out);
  for (const Part& part : parts_.at(name)) base::release_pages(part.bytes);
  return {};
}

}  // namespace tt::checkpoint

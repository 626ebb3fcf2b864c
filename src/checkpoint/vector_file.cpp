#include "tensor_tracer/checkpoint/vector_file.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "src/checkpoint/durable_file.h"
#include "src/checkpoint/safetensors_header.h"
#include "src/checkpoint/single_tensor.h"
#include "src/checkpoint/tensor_bytes.h"
#include "tensor_tracer/base/check.h"
#include "tensor_tracer/base/private_file.h"
#include "tensor_tracer/checkpoint/safetensors.h"
#include "tensor_tracer/protocol/message.h"

namespace tt::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kSafetensors = ".safetensors";
constexpr const char* kPickle = ".pt";
constexpr const char* kNumPy = ".npy";
constexpr const char* kProvenance = "tensor_tracer.vectors";  // key of the metadata

std::string extension_of(const std::string& path) { return fs::path(path).extension().string(); }

// By the name of the tensor; null: the file has none. Metadata of other programs are not an error.
json provenance_in(const SafetensorsHeader& header) {
  const auto found = header.metadata.find(kProvenance);
  if (found == header.metadata.end()) return {};
  auto parsed = protocol::parse_json(found->second, {.bytes = kMaxSafetensorsHeaderBytes});
  return parsed && parsed.value().is_object() ? std::move(parsed).value() : json();
}

json member_of(const json& object, const std::string& name) {
  return object.is_object() ? object.value(name, json()) : json();
}

}  // namespace

bool VectorFile::has_known_form(const std::string& path) {
  const std::string extension = extension_of(path);
  return extension == kPickle || extension == kSafetensors || extension == kNumPy;
}

base::Error VectorFile::wrong(const base::Error& error) const {
  return base::invalid_argument(file_, error.message, error.remedy);
}

base::Result<VectorFile> VectorFile::open(const std::string& path) {
  VectorFile file;
  file.file_ = fs::path(path).filename().string();
  if (!has_known_form(path))
    return base::invalid_argument(file.file_, "is of no known format",
                                  "use .pt, .safetensors or .npy");
  auto bytes = base::read_small_file(path, kMaxTensorFileBytes);
  if (!bytes) {
    return base::invalid_argument(file.file_, bytes.error().message,
                                  "put a file of one vector there");
  }
  file.bytes_ = std::move(bytes).value();
  if (extension_of(path) == kSafetensors) {
    const auto header = read_safetensors_header(file.bytes_, file.bytes_.size());
    if (!header) return file.wrong(header.error());
    for (const auto& [name, entry] : header.value().tensors) file.names_.push_back(name);
    if (file.names_.empty()) return file.wrong(bad_tensor("it holds no tensor"));
    file.provenance_ = provenance_in(header.value());
  }
  if (file.names_.size() > 1) return file;
  const std::string stem = fs::path(path).stem().string();
  if (!file.names_.empty())
    file.provenance_ = json::object({{stem, member_of(file.provenance_, file.names_.front())}});
  file.names_ = {stem};
  return file;
}

base::Result<StoredVector> VectorFile::read(const std::string& name) const {
  TT_CHECK(std::ranges::find(names_, name) != names_.end(), "no vector " + name);
  const std::string extension = extension_of(file_);
  auto rows = extension == kPickle  ? tensor_of_pt(bytes_)
              : extension == kNumPy ? tensor_of_npy(bytes_)
                                    : tensor_of_safetensors(bytes_, names_.size() > 1 ? name : "");
  if (!rows) return wrong(rows.error());
  return StoredVector{name, std::move(rows).value(), member_of(provenance_, name)};
}

base::Status write_vectors(const std::string& path, const std::vector<StoredVector>& vectors) {
  if (extension_of(path) == kPickle) {
    TT_CHECK_EQ(vectors.size(), std::size_t{1});
    const std::vector<char> bytes =
        torch::jit::pickle_save(vectors.front().rows.detach().contiguous());
    return write_durable(path, std::string_view(bytes.data(), bytes.size()));
  }
  TT_CHECK_EQ(extension_of(path), std::string(kSafetensors));
  std::vector<NamedTensor> tensors;
  json provenance = json::object();
  for (const StoredVector& vector : vectors) {
    tensors.push_back({vector.name, vector.rows});
    provenance[vector.name] = vector.provenance;
  }
  const auto written = write_safetensors(
      path, tensors,
      {{"format", "pt"},
       {kProvenance, provenance.dump(-1, ' ', false, json::error_handler_t::replace)}});
  return written ? base::Status() : written.error();
}

}  // namespace tt::checkpoint

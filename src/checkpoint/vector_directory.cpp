#include "tensor_tracer/checkpoint/vector_directory.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "src/checkpoint/vector_files.h"

namespace tt::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMaxVectorFileBytes = 256 << 20;

struct Format {
  const char* extension;
  base::Result<at::Tensor> (*read)(const std::string& bytes);
};
base::Result<at::Tensor> only_tensor_of_safetensors(const std::string& bytes) {
  return tensor_of_safetensors(bytes, "");
}
constexpr Format kFormats[] = {
    {".pt", tensor_of_pt}, {".safetensors", only_tensor_of_safetensors}, {".npy", tensor_of_npy}};

const Format* format_of(const fs::path& path) {
  const auto* found = std::ranges::find(kFormats, path.extension().string(), &Format::extension);
  return found == std::end(kFormats) ? nullptr : found;
}

base::Error wrong(const std::string& file, const std::string& message, std::string remedy) {
  return {"invalid_argument", message, file, std::move(remedy)};
}

base::Result<std::string> bytes_of(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error || size > kMaxVectorFileBytes) {
    return wrong(path.filename(), error ? "cannot be read" : "is larger than 256 MiB",
                 "put a file of one vector there");
  }
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace

base::Result<trace::DirectionVector> read_direction_vector(const std::string& path,
                                                           std::int64_t layers,
                                                           std::int64_t hidden_size) {
  const fs::path file(path);
  const Format* format = format_of(file);
  if (format == nullptr) {
    return wrong(file.filename(), "is of no known format", "use .pt, .safetensors or .npy");
  }
  auto bytes = bytes_of(file);
  if (!bytes) return bytes.error();
  auto read = format->read(bytes.value());
  if (!read) return wrong(file.filename(), read.error().message, read.error().remedy);
  const at::Tensor& tensor = read.value();
  const bool is_matrix = tensor.dim() == 2 && tensor.is_floating_point() &&
                         tensor.size(1) == hidden_size &&
                         (tensor.size(0) == layers || tensor.size(0) == layers + 1);
  if (!is_matrix) {
    std::string sizes;
    for (const std::int64_t size : tensor.sizes()) {
      sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
    }
    const std::string width = ", " + std::to_string(hidden_size) + "]";
    return wrong(file.filename(),
                 "has shape [" + sizes + "], this model needs [" + std::to_string(layers + 1) +
                     width + " with the embedding or [" + std::to_string(layers) + width +
                     " without",
                 "make the vector from this model");
  }
  trace::DirectionVector vector;
  vector.name = file.stem().string();
  vector.hidden_size = hidden_size;
  vector.has_embedding_row = tensor.size(0) == layers + 1;
  const at::Tensor floats = tensor.to(at::kFloat).contiguous();
  const std::int64_t missing = vector.has_embedding_row ? 0 : hidden_size;
  vector.rows.assign(static_cast<std::size_t>(missing), 0.0F);
  const auto* first = floats.const_data_ptr<float>();
  vector.rows.insert(vector.rows.end(), first, first + floats.numel());
  return vector;
}

VectorDirectory::VectorDirectory(std::string folder, std::int64_t layers, std::int64_t hidden_size)
    : folder_(std::move(folder)), layers_(layers), hidden_size_(hidden_size) {}

std::map<std::string, std::string> VectorDirectory::files() const {
  std::map<std::string, std::string> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    if (format_of(entry.path()) == nullptr || !entry.is_regular_file(error)) continue;
    files.emplace(entry.path().stem().string(), entry.path().string());
  }
  return files;
}

std::vector<std::string> VectorDirectory::names() {
  std::vector<std::string> names;
  for (const auto& [name, path] : files()) names.push_back(name);
  return names;
}

base::Result<std::shared_ptr<const trace::DirectionVector>> VectorDirectory::find(
    const std::string& name) {
  const auto all = files();
  const auto found = all.find(name);
  if (found == all.end()) {
    std::string known;
    for (const auto& [other, path] : all) known += (known.empty() ? "" : ", ") + other;
    return wrong(name, "there is no such vector", "known vectors: " + known);
  }
  std::error_code error;
  const auto time = fs::last_write_time(found->second, error).time_since_epoch().count();
  const auto size = fs::file_size(found->second, error);
  const std::lock_guard lock(mutex_);
  Known& known = known_[name];
  if (known.vector == nullptr || known.time != time || known.size != size) {
    auto read = read_direction_vector(found->second, layers_, hidden_size_);
    if (!read) return read.error();
    known = {time, size, std::make_shared<const trace::DirectionVector>(std::move(read).value())};
  }
  return known.vector;
}

}  // namespace tt::checkpoint

#include "tensor_tracer/checkpoint/vector_directory.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "src/checkpoint/tensor_bytes.h"
#include "src/checkpoint/vector_files.h"
#include "tensor_tracer/base/nearest.h"
#include "tensor_tracer/base/private_file.h"

namespace tt::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxToldNames = 32;

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

// The file of a vector; empty: there is no file.
fs::path path_of(const fs::path& folder, const std::string& name) {
  const bool is_plain =
      !name.empty() && name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
  if (!is_plain) return {};
  for (const Format& format : kFormats) {
    std::error_code error;
    fs::path path = folder / (name + format.extension);
    if (fs::is_regular_file(path, error)) return path;
  }
  return {};
}

base::Result<trace::DirectionVector> read_direction_vector(const std::string& path,
                                                           std::int64_t layers,
                                                           std::int64_t hidden_size) {
  const fs::path file(path);
  const Format* format = format_of(file);
  if (format == nullptr) {
    return base::invalid_argument(file.filename(), "is of no known format",
                                  "use .pt, .safetensors or .npy");
  }
  const auto bytes = base::read_small_file(path, kMaxTensorFileBytes);
  if (!bytes) {
    return base::invalid_argument(file.filename(), bytes.error().message,
                                  "put a file of one vector there");
  }
  auto read = format->read(bytes.value());
  if (!read)
    return base::invalid_argument(file.filename(), read.error().message, read.error().remedy);
  const at::Tensor& tensor = read.value();
  const bool is_matrix = tensor.dim() == 2 && tensor.is_floating_point() &&
                         tensor.size(1) == hidden_size &&
                         (tensor.size(0) == layers || tensor.size(0) == layers + 1);
  if (!is_matrix) {
    std::ostringstream sizes;
    sizes << tensor.sizes();
    const std::string width = ", " + std::to_string(hidden_size) + "]";
    return base::invalid_argument(
        file.filename(),
        "has shape " + sizes.str() + ", this model needs [" + std::to_string(layers + 1) + width +
            " with the embedding or [" + std::to_string(layers) + width + " without",
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

}  // namespace

VectorDirectory::VectorDirectory(std::string folder, std::int64_t layers, std::int64_t hidden_size)
    : folder_(std::move(folder)), layers_(layers), hidden_size_(hidden_size) {}

std::vector<std::string> VectorDirectory::names() {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    if (format_of(entry.path()) == nullptr || !entry.is_regular_file(error)) continue;
    names.insert(entry.path().stem().string());
  }
  return {names.begin(), names.end()};
}

base::Error VectorDirectory::not_found(const std::string& name) {
  const std::vector<std::string> all = names();
  const std::string near = base::nearest_word(name, all);
  std::string known;
  for (std::size_t i = 0; i < std::min(all.size(), kMaxToldNames); ++i)
    known += (known.empty() ? "" : ", ") + all[i];
  if (all.size() > kMaxToldNames)
    known += " and " + std::to_string(all.size() - kMaxToldNames) + " more";
  return base::invalid_argument(
      name, "there is no such vector",
      near.empty() ? "known vectors: " + known : "did you mean " + near + "?");
}

base::Result<std::shared_ptr<const trace::DirectionVector>> VectorDirectory::find(
    const std::string& name) {
  const fs::path path = path_of(folder_, name);
  if (path.empty()) return not_found(name);
  std::error_code error;
  const auto time = fs::last_write_time(path, error).time_since_epoch().count();
  const auto size = fs::file_size(path, error);
  const std::lock_guard lock(mutex_);
  Known& known = known_[name];
  if (known.vector == nullptr || known.time != time || known.size != size) {
    auto read = read_direction_vector(path, layers_, hidden_size_);
    if (!read) return read.error();
    known = {time, size, std::make_shared<const trace::DirectionVector>(std::move(read).value())};
  }
  return known.vector;
}

}  // namespace tt::checkpoint

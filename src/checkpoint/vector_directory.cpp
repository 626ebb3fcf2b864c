#include "tensor_tracer/checkpoint/vector_directory.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "tensor_tracer/base/nearest.h"
#include "tensor_tracer/checkpoint/vector_file.h"

namespace tt::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxToldNames = 32;

constexpr const char* kExtensions[] = {".pt", ".safetensors", ".npy"};

// The file of a vector in a folder; empty: there is no file.
fs::path path_of(const fs::path& folder, const std::string& name) {
  const bool is_plain =
      !name.empty() && name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
  if (!is_plain) return {};
  for (const char* extension : kExtensions) {
    std::error_code error;
    fs::path path = folder / (name + extension);
    if (fs::is_regular_file(path, error)) return path;
  }
  return {};
}

std::vector<std::string> names_in_folder(const fs::path& folder) {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const bool is_hidden = name.starts_with('.');  // macOS leaves ._NAME beside NAME
    if (is_hidden || !VectorFile::has_known_form(name) || !entry.is_regular_file(error)) continue;
    names.insert(entry.path().stem().string());
  }
  return {names.begin(), names.end()};
}

// A name in a folder is that of a file, which must hold one vector.
base::Result<StoredVector> read_from(const fs::path& path, const std::string& name) {
  const auto file = VectorFile::open(path);
  if (!file) return file.error();
  const std::vector<std::string>& names = file.value().names();
  if (std::ranges::find(names, name) != names.end()) return file.value().read(name);
  return base::invalid_argument(path.filename(), "it holds several tensors",
                                "give this file in place of the folder, or save one vector in a "
                                "file");
}

base::Result<trace::DirectionVector> read_direction_vector(const fs::path& file,
                                                           const std::string& name,
                                                           std::int64_t layers,
                                                           std::int64_t hidden_size) {
  const auto read = read_from(file, name);
  if (!read) return read.error();
  const at::Tensor& tensor = read.value().rows;
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
  vector.name = name;
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

VectorDirectory::VectorDirectory(std::string path, std::int64_t layers, std::int64_t hidden_size)
    : path_(std::move(path)), layers_(layers), hidden_size_(hidden_size) {}

std::vector<std::string> VectorDirectory::names() {
  std::error_code error;
  if (!fs::is_regular_file(path_, error)) return names_in_folder(path_);
  const auto file = VectorFile::open(path_);
  return file ? file.value().names() : std::vector<std::string>();
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

base::Result<fs::path> VectorDirectory::file_of(const std::string& name) {
  std::error_code error;
  fs::path path = path_;
  if (!fs::is_regular_file(path, error)) {
    path = path_of(path, name);
    if (path.empty()) return not_found(name);
    return path;
  }
  const auto file = VectorFile::open(path_);
  if (!file) return file.error();
  if (std::ranges::find(file.value().names(), name) == file.value().names().end())
    return not_found(name);
  return path;
}

base::Result<std::shared_ptr<const trace::DirectionVector>> VectorDirectory::find(
    const std::string& name) {
  const auto found = file_of(name);
  if (!found) return found.error();
  const fs::path& file = found.value();
  std::error_code error;
  const auto time = fs::last_write_time(file, error).time_since_epoch().count();
  const auto size = fs::file_size(file, error);
  const std::lock_guard lock(mutex_);
  Known& known = known_[name];
  if (known.vector == nullptr || known.time != time || known.size != size) {
    auto read = read_direction_vector(file, name, layers_, hidden_size_);
    if (!read) return read.error();
    known = {time, size, std::make_shared<const trace::DirectionVector>(std::move(read).value())};
  }
  return known.vector;
}

}  // namespace tt::checkpoint

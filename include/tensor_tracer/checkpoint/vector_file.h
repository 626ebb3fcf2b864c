#pragma once

#include <ATen/core/Tensor.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"

namespace tt::checkpoint {

/// A direction vector as a file holds it.
struct StoredVector {
  std::string name;
  at::Tensor rows;                 // a CPU tensor of floats, of any dtype and shape
  nlohmann::json provenance = {};  // docs/vectors.md, "Provenance"; null: the file has none
};

/// A file of direction vectors, in memory: `.pt` (one tensor as torch.save writes it; no code in it
/// is run), `.npy` (float16, float32 or float64, C order), or `.safetensors` (one tensor for each
/// vector). At most 256 MiB. Immutable. Thread: any.
class VectorFile {
 public:
  /// Error: the file cannot be read, its extension is unknown, or it holds no tensor; `where` is
  /// the name of the file.
  static base::Result<VectorFile> open(const std::string& path);
  /// True if the extension of the name is one of the three.
  static bool has_known_form(const std::string& path);

  /// Sorted, at least one. A file of one vector gives it the file's name without the extension; a
  /// file of several gives each the name of its tensor.
  const std::vector<std::string>& names() const { return names_; }
  /// REQUIRES: `name` is one of names(). Error: as open(), for the tensor.
  base::Result<StoredVector> read(const std::string& name) const;

 private:
  VectorFile() = default;
  base::Error wrong(const base::Error& error) const;

  std::string file_;  // without its folder
  std::string bytes_;
  std::vector<std::string> names_;
  nlohmann::json provenance_ = {};  // by the name of the tensor
};

/// Writes vectors to a file that ends with `.safetensors`, or one vector to a file that ends with
/// `.pt`, which has no provenance. The file replaces a file of the same name when it is complete.
/// Errors have the code "storage". REQUIRES: the names differ, and `.pt` gets one vector. Thread:
/// any.
base::Status write_vectors(const std::string& path, const std::vector<StoredVector>& vectors);

}  // namespace tt::checkpoint

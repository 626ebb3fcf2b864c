#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"

namespace tt::trace {

/// A direction in the residual stream for every layer, such as a persona vector. Row n belongs to
/// hidden state n: 0 is the embedding, n the output of layer n. Immutable.
struct DirectionVector {
  std::string name;
  std::int64_t hidden_size = 0;
  bool has_embedding_row = false;  // the file had [layers + 1, hidden]
  std::vector<float> rows;         // [layers + 1, hidden]; no embedding row: row 0 is zeros
  const float* row(int n) const { return rows.data() + n * hidden_size; }
};

/// Direction vectors by name. The implementation reads files of one directory, which is set when
/// the run starts. A viewer sends only names. Thread: any.
class VectorLibrary {
 public:
  virtual ~VectorLibrary() = default;
  /// The names of all vectors that exist now, sorted.
  virtual std::vector<std::string> names() = 0;
  /// Reads the file again if it changed. Errors: no such name; the shape does not fit this model.
  virtual base::Result<std::shared_ptr<const DirectionVector>> find(const std::string& name) = 0;
};

/// Tensors in the files of one directory, which is set when the run starts. Thread: any.
class TensorFiles {
 public:
  virtual ~TensorFiles() = default;
  /// Errors: no such file; no such tensor in the file.
  virtual base::Result<at::Tensor> find(const std::string& file, const std::string& name) = 0;
};

}  // namespace tt::trace

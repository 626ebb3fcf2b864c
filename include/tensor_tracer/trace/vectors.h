#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"

namespace tt::trace {

/// A direction in the residual stream for every layer, such as a persona vector. Row n belongs to
/// hidden state n: 0 the embedding, n the output of layer n. Immutable.
struct DirectionVector {
  std::string name;
  std::int64_t hidden_size = 0;
  bool has_embedding_row = false;  // the file had [layers + 1, hidden]
  std::vector<float> rows;         // [layers + 1, hidden]; row 0 is zeros if the file had none
  const float* row(int n) const { return rows.data() + n * hidden_size; }
};

/// Direction vectors by name. The implementation reads files of one directory that was named when
/// the run started; a viewer gives names only. Thread: any.
class VectorLibrary {
 public:
  virtual ~VectorLibrary() = default;
  /// Names that can be asked for now, sorted.
  virtual std::vector<std::string> names() = 0;
  /// Reads the file anew if it changed. Errors: no such name, another shape than this model's.
  virtual base::Result<std::shared_ptr<const DirectionVector>> find(const std::string& name) = 0;
};

/// Tensors of the files of one directory that was named when the run started. Thread: any.
class TensorFiles {
 public:
  virtual ~TensorFiles() = default;
  /// Errors: no such file, no such tensor in it.
  virtual base::Result<at::Tensor> find(const std::string& file, const std::string& name) = 0;
};

}  // namespace tt::trace

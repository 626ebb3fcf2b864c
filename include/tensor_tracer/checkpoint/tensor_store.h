#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/base/shared_bytes.h"
#include "tensor_tracer/mesh/placement.h"

namespace tt::checkpoint {

/// The tensors of several safetensors files, whole or in parts (tensor_table.h). The files are
/// mapped; a read touches only the bytes that it returns, and their pages do not stay resident.
/// Thread: any.
class TensorStore {
 public:
  /// `files`: names in `folder`. Error: the code is "not_found" or "damaged", and `where` names the
  /// file; or parts of a tensor overlap, leave a gap, or differ in dtype.
  static base::Result<TensorStore> open(const std::string& folder,
                                        const std::vector<std::string>& files);

  /// The names of all tensors, sorted.
  std::vector<std::string> names() const;
  /// Of the whole tensor; nullopt: no tensor has the name.
  std::optional<std::vector<std::int64_t>> shape_of(const std::string& name) const;
  /// Of a joined tensor: that of its first source. nullopt: no tensor has the name.
  std::optional<at::ScalarType> dtype_of(const std::string& name) const;

  /// A tensor that is made of others: `sources` joined along dim 0.
  struct Joined {
    std::vector<std::string> sources;
    /// The stored matrices are [columns, rows]. Then the sources are joined along their dim 1.
    bool transposed = false;
  };
  /// Adds the tensor `name`, or replaces it; its sources stay. Error: a source is missing or holds
  /// whole numbers, or the sources differ in a dim other than 0.
  base::Status define(const std::string& name, const Joined& of);

  /// By file name: size, and a hash of the header and of 1,024 samples of 64 bytes. Ranks compare
  /// them, because two nodes may have different files under the same path.
  const std::map<std::string, std::string>& fingerprints() const { return fingerprints_; }

  /// A copy of the whole tensor, in dtype_of(name). Error: no tensor `name`.
  base::Result<at::Tensor> read(const std::string& name) const;
  /// Copies the shard of rank `rank` of `ranks` into `out`, in the rank's local order, and converts
  /// it to the dtype of `out`. A replicated placement copies the whole tensor. Error: no tensor
  /// `name`, or its whole shape is not `full_shape`. REQUIRES: `out` is a CPU tensor with the
  /// shape of the shard.
  base::Status read_shard(const std::string& name, const std::vector<std::int64_t>& full_shape,
                          const mesh::Placement& placement, int rank, int ranks,
                          at::Tensor& out) const;

 private:
  struct Facts {
    at::ScalarType dtype = at::kFloat;
    std::vector<std::int64_t> shape;  // of the whole tensor
  };
  // A box of a tensor: `offsets` in the whole tensor.
  struct Part {
    base::SharedBytes file;
    std::string_view bytes;  // in `file`
    std::vector<std::int64_t> shape, offsets;
    at::ScalarType dtype = at::kFloat;
    bool transposed = false;  // the file holds the transposed matrix
  };
  TensorStore() = default;
  void copy_interval(const std::string& name, std::int64_t dim, const mesh::Interval& interval,
                     const at::Tensor& out) const;

  std::map<std::string, Facts> facts_;
  std::map<std::string, std::string> fingerprints_;
  std::map<std::string, std::vector<Part>> parts_;
};

}  // namespace tt::checkpoint

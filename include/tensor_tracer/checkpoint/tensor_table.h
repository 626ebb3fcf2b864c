#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/base/result.h"

namespace tt::checkpoint {

/// The bytes of a number of a safetensors dtype such as "BF16"; nullopt: the name is not known.
std::optional<std::size_t> bytes_of_dtype(std::string_view name);
/// PyTorch's name of a safetensors dtype: "bfloat16" for "BF16". An unknown name stays.
std::string torch_name_of_dtype(std::string_view name);
/// The opposite: "BF16" for "bfloat16"; nullopt: the format has no such dtype.
std::optional<std::string> safetensors_name_of(std::string_view torch_name);

/// The tensors of several safetensors files, from the headers alone. A tensor is whole in one file,
/// or in parts in several files: a file whose metadata have the key DCP_SHARDING_INFO names the
/// offsets of its parts, as torch.distributed.checkpoint's HuggingFaceStorageWriter does. Errors
/// have the code "damaged", and `where` names the file. Thread: one while files are added, then
/// any.
class TensorTable {
 public:
  /// A box of a tensor: `offsets` in the whole tensor, bytes [begin, end) of the file.
  struct Part {
    std::size_t file = 0;  // index in files()
    std::size_t begin = 0, end = 0;
    std::vector<std::int64_t> shape, offsets;
  };
  struct Tensor {
    std::string dtype;                // the format's name, such as "BF16"
    std::vector<std::int64_t> shape;  // of the whole tensor, at most 8 dims
    std::vector<Part> parts;
  };
  struct File {
    std::string path;
    std::size_t bytes = 0, header_bytes = 0;
    std::map<std::string, std::string> metadata;
  };

  /// `bytes`: the whole file; only its header is read. Error: the header is wrong, a shape does not
  /// fit its size (of a known dtype), or a part differs from the others in dtype or number of dims.
  base::Status add_file(const std::string& path, std::string_view bytes);
  /// Drops copies of a part. Error: parts of a tensor overlap or are missing. No file may follow.
  base::Status complete();

  const std::map<std::string, Tensor>& tensors() const { return tensors_; }
  const std::vector<File>& files() const { return files_; }

 private:
  base::Status complete(const std::string& name, Tensor& tensor) const;

  std::map<std::string, Tensor> tensors_;
  std::vector<File> files_;
};

}  // namespace tt::checkpoint

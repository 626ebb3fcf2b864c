#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/base/result.h"

/// Readers of a single tensor in a file's bytes. They do not use libtorch, do not decompress, do
/// not run code from the file and need only a few times the memory of its header. An error's
/// message describes the error in the bytes. Thread: any.
namespace tt::checkpoint {

/// Limit of a file, and of the tensor in the file; has a test.
inline constexpr std::size_t kMaxTensorFileBytes = std::size_t{256} << 20U;

enum class Number : std::uint8_t { kF64, kF32, kF16, kBf16 };

std::size_t bytes_of(Number number);

/// The position of a tensor in a file. Bytes [begin, begin + size) hold an array of numbers;
/// element `index` is number [offset + sum(index * stride)] of this array. All numbers lie inside
/// the file.
struct TensorBytes {
  Number number = Number::kF32;
  std::vector<std::int64_t> shape;    // at most 8 dims, each greater than 0
  std::vector<std::int64_t> strides;  // in numbers, 0 or more
  std::int64_t offset = 0;            // in numbers
  std::size_t begin = 0;
  std::size_t size = 0;  // a multiple of the number's bytes
};

base::Error bad_tensor(std::string message);

/// Returns `found`, with row-major strides if it has no strides. Error: the tensor does not lie
/// inside its bytes, or the bytes do not lie inside the file of `file_bytes` bytes, or the tensor
/// has more than kMaxTensorFileBytes.
base::Result<TensorBytes> check_tensor(TensorBytes found, std::size_t file_bytes);

/// A file of torch.save(tensor), whose records are not compressed. The tensor is plain and may have
/// any strides.
base::Result<TensorBytes> find_in_pt(std::string_view file);
/// A file in format 1.0 to 3.0 of numpy.lib.format, little-endian, in C order.
base::Result<TensorBytes> find_in_npy(std::string_view file);
/// With a name: the tensor of this name. With an empty name: the only tensor.
base::Result<TensorBytes> find_in_safetensors(std::string_view file, std::string_view name);

/// Bytes [begin, begin + size) of the file.
struct ZipRecord {
  std::size_t begin = 0;
  std::size_t size = 0;
};

/// The record <folder>/`name` of a ZIP archive. Error: not an archive, no such record, a compressed
/// record, or more than kMaxTensorFileBytes of content.
base::Result<ZipRecord> find_zip_record(std::string_view file, std::string_view name);

/// The facts of a tensor in its pickle.
struct PickledTensor {
  Number number = Number::kF32;
  std::string storage;        // name of its record
  std::int64_t elements = 0;  // of the storage
  std::int64_t offset = 0;
  std::vector<std::int64_t> shape, strides;
};

/// Reads the pickle of torch.save(tensor). Accepts only the few opcodes and names that it needs,
/// and holds at most 256 values.
base::Result<PickledTensor> read_tensor_pickle(std::string_view pickle);

}  // namespace tt::checkpoint

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/base/result.h"

/// Readers of the one tensor in a file's bytes. They know no libtorch, inflate nothing, run no code
/// of the file and take no more memory than a few times its header. An error's message says what is
/// wrong with the bytes. Thread: any.
namespace tt::checkpoint {

/// Of a file, and of the tensor in it; has a test.
inline constexpr std::size_t kMaxTensorFileBytes = std::size_t{256} << 20U;

enum class Number : std::uint8_t { kF64, kF32, kF16, kBf16 };

std::size_t bytes_of(Number number);

/// Where a tensor lies in a file: numbers [offset + sum(index * stride)] of those in bytes
/// [begin, begin + size). All of them lie inside the file.
struct TensorBytes {
  Number number = Number::kF32;
  std::vector<std::int64_t> shape;    // at most 8 dims, each above 0
  std::vector<std::int64_t> strides;  // in numbers, 0 or more
  std::int64_t offset = 0;            // in numbers
  std::size_t begin = 0;
  std::size_t size = 0;  // a multiple of the number's bytes
};

base::Error bad_tensor(std::string message);

/// `found` with strides of a row-major tensor if it has none. Error: it does not lie in its bytes,
/// or those do not lie in the file of `file_bytes`, or the tensor has more than
/// kMaxTensorFileBytes.
base::Result<TensorBytes> check_tensor(TensorBytes found, std::size_t file_bytes);

/// The file of torch.save(tensor), whose records are not compressed: a plain tensor, of any
/// strides.
base::Result<TensorBytes> find_in_pt(std::string_view file);
/// Format 1.0 to 3.0 of numpy.lib.format, little-endian, in C order.
base::Result<TensorBytes> find_in_npy(std::string_view file);
/// With a name that tensor of several, else the only one.
base::Result<TensorBytes> find_in_safetensors(std::string_view file, std::string_view name);

/// Bytes [begin, begin + size) of the file.
struct ZipRecord {
  std::size_t begin = 0;
  std::size_t size = 0;
};

/// The record of a ZIP archive whose name is a folder, then `name`. Error: no archive, no such
/// record, a compressed one, or more than kMaxTensorFileBytes of content.
base::Result<ZipRecord> find_zip_record(std::string_view file, std::string_view name);

/// What the pickle of a tensor says of it.
struct PickledTensor {
  Number number = Number::kF32;
  std::string storage;        // name of its record
  std::int64_t elements = 0;  // of the storage
  std::int64_t offset = 0;
  std::vector<std::int64_t> shape, strides;
};

/// Reads the pickle of torch.save(tensor). Knows its few opcodes and names only, and holds at most
/// 256 values.
base::Result<PickledTensor> read_tensor_pickle(std::string_view pickle);

}  // namespace tt::checkpoint

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "src/record/export/exporter.h"
#include "tensor_tracer/protocol/record.h"

namespace tt::record {

using ByteSink = std::function<void(std::span<const std::byte>)>;

/// One dense row-major little-endian array of an export. What it refers to is the Source's.
struct Array {
  std::string name;
  protocol::Dtype dtype = protocol::Dtype::kF32;  // u8: plain bytes
  std::vector<std::uint64_t> shape;
  /// Hands over all bytes, piece by piece. Throws Failure.
  std::function<void(const ByteSink&)> write;
};

std::uint64_t bytes_of(const Array& array);

struct ArrayOptions {
  bool bf16 = false;  // the format has it; otherwise float32
  bool raw = false;   // u8 stays u8, with a second array `<name>.lines` of offsets and scales
};

/// Every series as `<name>`, `<name>.steps` and, where they are not all 0, `.micro_batches` and
/// `.first_rows`, where there is more than one, `.plans`; the scalars as `scalars.…`.
/// Throws Failure if two would have one name, or for a dtype that is not known.
std::vector<Array> make_arrays(const Source& source, const ArrayOptions& options);

}  // namespace tt::record

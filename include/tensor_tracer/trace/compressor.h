#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/eval/limits.h"
#include "tensor_tracer/points/place_table.h"
#include "tensor_tracer/protocol/record.h"
#include "tensor_tracer/trace/layout.h"
#include "tensor_tracer/trace/vectors.h"

namespace tt::trace {

/// What one rank holds of a captured tensor: the first wanted batch row, lines and columns as they
/// lie in memory, columns next to each other. Strides count numbers.
struct LocalTensor {
  const void* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t line_stride = 0;
};

/// One compressor for tensors of one shape on one mesh: what every rank contributes, and how the
/// leader joins it. Numbers are float or double, as the packing was made for. Immutable; the same
/// on every rank. Thread: any.
class Packing {
 public:
  virtual ~Packing() = default;
  /// Bytes of rank `rank`'s contribution; 0: it has none.
  virtual std::size_t part_bytes(std::size_t rank) const = 0;
  /// Writes this rank's contribution. `part` is aligned to 8 bytes.
  virtual void pack(int layer, std::size_t rank, const LocalTensor& local,
                    std::byte* part) const = 0;
  /// Leader: the numbers of the record, row-major, from every rank's contribution (null where a
  /// rank has none). `out` has room for all of `shape()` and is aligned to 8 bytes.
  virtual void join(int layer, const std::vector<const std::byte*>& parts,
                    std::byte* out) const = 0;
  /// Of the record, at most four dims.
  virtual std::vector<std::int64_t> shape() const = 0;
};

/// How a captured tensor is made small. One file in src/trace/compress each.
class Compressor {
 public:
  virtual ~Compressor() = default;
  /// {"kind": …} with defaults written out.
  virtual nlohmann::json to_json() const = 0;
  virtual protocol::RecordCompressor code() const = 0;
  /// True where numbers of the record count or name things, which few bits cannot hold.
  virtual bool needs_full_precision() const { return false; }
  /// The direction vectors that it was made of.
  virtual std::vector<std::shared_ptr<const DirectionVector>> vectors() const { return {}; }
  virtual std::shared_ptr<const Packing> packing(const LogicalShape& shape,
                                                 bool is_double) const = 0;
};

/// What the JSON form of a compressor is checked against. Referred to during the call only.
struct CompressorContext {
  const points::Place& point;
  const mesh::Placement& placement;  // of the point, or of its gradient
  int tensor_ranks = 1;
  VectorLibrary* vectors = nullptr;  // null: the run has none
  std::int64_t features = 1;         // of a pass: of attention its keys
  std::int64_t max_lines = 1;        // batch rows × lines of the largest capture
  std::int64_t min_lines = 1;        // and of the smallest
  std::int64_t max_rows = 1;         // batch rows of the largest capture
  std::int64_t min_rows = 1;         // and of the smallest
  eval::Limits limits = {};          // of an expression, for one capture
};

/// Reads {"kind": "tile" | "none" | "empty" | "stats" | "projection" | "topk", …}; null: the
/// point's default. Errors name `where` and a remedy.
base::Result<std::shared_ptr<const Compressor>> parse_compressor(const nlohmann::json& text,
                                                                 const std::string& where,
                                                                 const CompressorContext& context);

}  // namespace tt::trace

#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/eval/limits.h"
#include "tensor_tracer/points/place_table.h"
#include "tensor_tracer/protocol/record.h"
#include "tensor_tracer/trace/layout.h"
#include "tensor_tracer/trace/vectors.h"

namespace tt::trace {

/// Writes one rank's contribution to a capture on one type of device; as Packing::pack.
using PackKernel = std::function<void(int layer, std::size_t rank, const at::Tensor& local,
                                      std::span<std::byte> part)>;

/// The kernels of one compressor, one for each type of device that it runs on. Immutable.
/// Thread: any.
class PackKernels {
 public:
  PackKernels(std::string_view compressor, std::map<at::DeviceType, PackKernel> by_device);
  /// Throws std::runtime_error that names the compressor and the device if there is none.
  const PackKernel& on(at::Device device) const;

 private:
  const std::string compressor_;
  const std::map<at::DeviceType, PackKernel> by_device_;
};

/// One compressor for tensors of one shape on one mesh: a layout (the bytes of every rank and the
/// shape of the record: arithmetic, the same on every rank), a table of kernels, and the leader's
/// join. Numbers are float or double, as the packing was made for. Immutable. Thread: any.
class Packing {
 public:
  virtual ~Packing() = default;
  /// Bytes of rank `rank`'s contribution; 0: it has none.
  virtual std::size_t part_bytes(std::size_t rank) const = 0;
  /// Of the record, at most four dims.
  virtual std::vector<std::int64_t> shape() const = 0;
  virtual const PackKernels& kernels() const = 0;
  /// Writes this rank's contribution with the kernel of local's device. `local`: [rows, lines,
  /// columns] as the rank holds them, columns next to each other. `part`: part_bytes(rank) bytes on
  /// the same device, aligned to 8. Throws std::runtime_error if the device has no kernel.
  void pack(int layer, std::size_t rank, const at::Tensor& local, std::span<std::byte> part) const {
    kernels().on(local.device())(layer, rank, local, part);
  }
  /// Leader: the numbers of the record, row-major, from every rank's contribution (null where a
  /// rank has none), all in host memory. `out` has room for all of shape() and is aligned to 8
  /// bytes.
  virtual void join(int layer, const std::vector<const std::byte*>& parts,
                    std::byte* out) const = 0;
};

/// How a captured tensor is made small. One file in src/trace/compress each. Immutable.
struct Compressor {
  nlohmann::json form;  // {"kind": …} with defaults written out
  protocol::RecordCompressor code;
  std::function<std::shared_ptr<const Packing>(const LogicalShape& shape, bool is_double)> packing;
  /// True where numbers of the record count or name things, which few bits cannot hold.
  bool needs_full_precision = false;
  /// The direction vectors that it was made of.
  std::vector<std::shared_ptr<const DirectionVector>> vectors = {};
};

/// What a capture may hold.
struct CaptureSize {
  std::int64_t rows = 1;   // of the batch
  std::int64_t lines = 1;  // batch rows × lines
};

/// Facts of the run and the entry that check the JSON form of a compressor. They must outlive the
/// call only.
struct CompressorContext {
  const points::Place& point;
  const mesh::Placement& placement;  // of the point, or of its gradient
  int tensor_ranks = 1;
  VectorLibrary* vectors = nullptr;  // null: the run has none
  std::int64_t features = 1;         // of a pass: of attention its keys
  CaptureSize largest = {};
  CaptureSize smallest = {};
  eval::Limits limits = {};  // of an expression, for one capture
};

/// Reads {"kind": "tile", …}; null: the point's default. Errors name `where` and a remedy.
base::Result<std::shared_ptr<const Compressor>> parse_compressor(const nlohmann::json& text,
                                                                 const std::string& where,
                                                                 const CompressorContext& context);

}  // namespace tt::trace

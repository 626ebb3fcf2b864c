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

/// Facts of a capture besides its numbers.
struct CaptureFacts {
  int layer = 0;  // the row of a direction vector
  /// For each captured line, the column that the model should predict; -1: unknown. Empty: unknown
  /// for all lines.
  std::span<const std::int64_t> targets = {};
};

/// Writes one rank's contribution to a capture on one type of device. The arguments are those of
/// Packing::pack.
using PackKernel = std::function<void(const CaptureFacts& facts, std::size_t rank,
                                      const at::Tensor& local, std::span<std::byte> part)>;

/// Launches kernels on the current stream, which write the numbers of the record to `out`. Only the
/// leader calls it. `parts` and `out` as in Packing::join, but in the memory of the device; the
/// caller keeps this memory until the kernels have ended. Throws std::runtime_error if the launch
/// fails.
using DeviceJoin = std::function<void(const std::vector<const std::byte*>& parts, std::byte* out)>;

/// The kernels of one compressor: one for each type of device that the compressor supports.
/// Immutable. Thread: any.
class PackKernels {
 public:
  PackKernels(std::string_view compressor, std::map<at::DeviceType, PackKernel> by_device);
  /// Throws std::runtime_error if the device has no kernel; the message names the compressor and
  /// the device.
  const PackKernel& on(at::Device device) const;

 private:
  const std::string compressor_;
  const std::map<at::DeviceType, PackKernel> by_device_;
};

/// One compressor for tensors of one shape on one mesh. It has a layout, a table of kernels, and
/// the leader's join. The layout is the bytes of every rank and the shape of the record; it is pure
/// arithmetic and the same on every rank. Numbers are float or double, fixed when the packing is
/// made. Immutable. Thread: any.
class Packing {
 public:
  virtual ~Packing() = default;
  /// Bytes of rank `rank`'s contribution; 0: the rank contributes nothing.
  virtual std::size_t part_bytes(std::size_t rank) const = 0;
  /// Shape of the record, at most four dims.
  virtual std::vector<std::int64_t> shape() const = 0;
  virtual const PackKernels& kernels() const = 0;
  /// Writes this rank's contribution with the kernel of local's device. `local`: this rank's shard,
  /// [rows, lines, columns]; its columns are contiguous. `part`: part_bytes(rank) bytes on the same
  /// device, aligned to 8. Throws std::runtime_error if the device has no kernel.
  void pack(const CaptureFacts& facts, std::size_t rank, const at::Tensor& local,
            std::span<std::byte> part) const {
    kernels().on(local.device())(facts, rank, local, part);
  }
  /// Returns the function that joins the parts on this device. Its result has the same bits as that
  /// of join(). Returns null if the compressor, the layout or the build has no kernel for this;
  /// then the caller copies the parts to the host and calls join(). The packing must outlive the
  /// function.
  virtual DeviceJoin device_join(at::Device /*on*/) const { return nullptr; }
  /// Leader: writes the numbers of the record to `out`, row-major. `parts` are the contributions of
  /// all ranks, null for a rank without one, all in host memory. `out` has room for all of
  /// shape() and is aligned to 8 bytes.
  virtual void join(const CaptureFacts& facts, const std::vector<const std::byte*>& parts,
                    std::byte* out) const = 0;
};

/// The form of a compressor that keeps the tokens with the largest numbers over the run: the
/// packing gives the numbers of one pass, [rows, tokens, units], and the leader's record is the
/// list so far, [units, k, kTokenNumbers].
struct KeptForm {
  std::int64_t units = 0;  // 0: the record is the packing's result
  std::int64_t k = 0;

  static constexpr std::int64_t kContext = 16;  // tokens before, and after
  /// Value, step, row of the global batch or of the prompt set, position, then the ids of the
  /// tokens around it and of itself; -1 if there is no token.
  static constexpr std::int64_t kTokenNumbers = 4 + 2 * kContext + 1;
  std::vector<std::int64_t> shape() const { return {units, k, kTokenNumbers}; }
};

/// Reduces a captured tensor. Each compressor has one file in src/trace/compress.
/// Immutable.
struct Compressor {
  nlohmann::json form;  // {"kind": …} with defaults written out
  protocol::RecordCompressor code;
  std::function<std::shared_ptr<const Packing>(const LogicalShape& shape, bool is_double)> packing;
  /// True if numbers of the record are counts or indices, which need all their bits.
  bool needs_full_precision = false;
  /// True if the kernels read CaptureFacts::targets.
  bool needs_targets = false;
  KeptForm kept = {};
  /// The direction vectors that the compressor was made from.
  std::vector<std::shared_ptr<const DirectionVector>> vectors = {};
};

/// The size that a capture may have.
struct CaptureSize {
  std::int64_t rows = 1;   // of the batch
  std::int64_t lines = 1;  // batch rows × lines
};

/// Facts of the run and of the entry, to check the JSON form of a compressor. They must outlive
/// only the call.
struct CompressorContext {
  const points::Place& point;
  const mesh::Placement& placement;  // of the point, or of its gradient
  bool is_gradient = false;
  int tensor_ranks = 1;
  VectorLibrary* vectors = nullptr;  // null: the run has no vectors
  std::int64_t features = 1;         // in a pass; of attention: the keys
  CaptureSize largest = {};
  CaptureSize smallest = {};
  eval::Limits limits = {};  // of an expression, per capture
};

/// Reads {"kind": "tile", …}; null gives the default of the trace point. Errors name `where` and a
/// remedy.
base::Result<std::shared_ptr<const Compressor>> parse_compressor(const nlohmann::json& text,
                                                                 const std::string& where,
                                                                 const CompressorContext& context);

}  // namespace tt::trace

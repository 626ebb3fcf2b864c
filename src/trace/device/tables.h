#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/trace/device/cells.h"
#include "src/trace/device/join.h"
#include "tensor_tracer/trace/layout.h"

namespace tt::trace::device {

/// A reducer, and the memory that it points to.
template <typename Reducer>
struct Prepared {
  Reducer reducer;
  at::Tensor memory = {};
};

/// The jobs of a layout: tables of cells, one for each rank, copied to a device when they are first
/// used there. Immutable but for that. Thread: any.
class JobTables {
 public:
  /// `values`: of a cell of that width, as in Method. `per_line`: each line of a block is a cell.
  JobTables(CellLayout layout, const LogicalShape& shape, bool per_line,
            std::function<std::int64_t(std::int64_t)> values)
      : layout_(std::move(layout)),
        first_line_(shape.first_line),
        captured_lines_(shape.captured_lines()),
        per_line_(per_line),
        values_(std::move(values)) {}

  /// A job with the rank's cells and without memory. The tables live as long as this object.
  PackJob job(std::size_t rank, at::Device device) const;

 private:
  struct Tables {
    PackJob job;
    at::Tensor memory;  // of the tables of the job
  };

  Tables make(std::size_t rank, at::Device device) const;
  std::vector<ColumnChunk> columns_of(std::size_t rank, PackJob& job) const;
  std::vector<LineChunk> lines_of(std::size_t rank, PackJob& job) const;

  const CellLayout layout_;
  const std::int64_t first_line_, captured_lines_;
  const bool per_line_;
  const std::function<std::int64_t(std::int64_t)> values_;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<std::size_t, at::Device>, Tables,
                   decltype([](const auto& a, const auto& b) {
                     return std::pair(a.first, a.second.str()) < std::pair(b.first, b.second.str());
                   })>
      tables_;
};

/// Tells where each cell is among the parts of all ranks. The first call for a device copies the
/// tables there; nothing else changes. Thread: any.
class PlaceTables {
 public:
  explicit PlaceTables(const CellLayout& layout);

  /// False: some cells are not whole on one rank, or the ranks are more than kMaxJoinedRanks.
  bool has_all() const { return has_all_; }
  /// The cells without the parts. The tables live as long as this object. REQUIRES: has_all().
  template <typename Value>
  GatheredCells<Value> cells(at::Device device) const {
    const BlockPlace* places = places_on(device);
    GatheredCells<Value> cells{.lines = places + column_count_,
                               .columns = places,
                               .rows = rows_,
                               .line_count = std::ssize(places_) - column_count_,
                               .column_count = column_count_,
                               .rank_count = std::ssize(blocks_)};
    for (std::size_t rank = 0; rank < blocks_.size(); ++rank) {
      cells.ranks[rank].lines = blocks_[rank].first;
      cells.ranks[rank].columns = blocks_[rank].second;
    }
    return cells;
  }

 private:
  void add_places(const AxisLayout& axis, std::size_t stride);
  const BlockPlace* places_on(at::Device device) const;

  const std::int64_t rows_, column_count_;
  bool has_all_ = true;
  std::vector<BlockPlace> places_;                             // of columns, then of lines
  std::vector<std::pair<std::int64_t, std::int64_t>> blocks_;  // of lines and columns, by rank
  mutable std::mutex mutex_;
  mutable std::unordered_map<at::Device, at::Tensor> on_device_;
};

/// Allocates uint8 [bytes] on the device, for its current stream.
at::Tensor scratch_memory(std::int64_t bytes, at::Device device);

/// The handle of the device's current stream for its runtime; null: the CPU.
void* current_stream(at::Device device);

}  // namespace tt::trace::device

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tensor_tracer/trace/compressor.h"
#include "tensor_tracer/trace/layout.h"

/// The one walk over cells (blocks of lines × blocks of columns) that all compressors share. A
/// Kernel reduces one cell:
///
///     struct Kernel {
///       using Number = float or double;         // of the tensor
///       using Value = …;                        // of what is left of a cell
///       static constexpr bool kPerLine = true;  // each line of a block is a cell of its own
///       std::int64_t values(std::int64_t width) const;
///       void reduce(const Cell<Number>& cell, Value* out);
///     };
///
/// reduce is called for a cell on the rank that holds it whole, else on the leader with the joined
/// columns, and must leave the same bits either way. A rank's part is all its values, then all its
/// raw columns, both in logical order.
namespace tt::trace {

template <typename Number_>
struct Cell {
  const Number_* data = nullptr;
  std::int64_t stride = 0;  // from line to line
  std::int64_t lines = 0;
  std::int64_t width = 0;
  std::int64_t first_column = 0;  // logical
};

inline std::size_t padded_to_8(std::size_t bytes) { return (bytes + 7) / 8 * 8; }

struct PartSize {
  std::int64_t values = 0;
  std::int64_t raw = 0;
  template <typename Kernel>
  std::size_t value_bytes() const {
    return padded_to_8(static_cast<std::size_t>(values) * sizeof(typename Kernel::Value));
  }
  template <typename Kernel>
  std::size_t bytes() const {
    return value_bytes<Kernel>() +
           padded_to_8(static_cast<std::size_t>(raw) * sizeof(typename Kernel::Number));
  }
};

template <typename Kernel>
PartSize part_size(const CellLayout& layout, std::size_t rank, const Kernel& kernel) {
  PartSize size;
  for (const Piece& lines : layout.lines.pieces[rank]) {
    for (const Piece& columns : layout.columns.pieces[rank]) {
      if (lines.whole && columns.whole) {
        size.values += kernel.values(columns.count) * (Kernel::kPerLine ? lines.count : 1);
      } else {
        size.raw += lines.count * columns.count;
      }
    }
  }
  size.values *= layout.rows;
  size.raw *= layout.rows;
  return size;
}

template <typename Kernel>
void pack_cells(const CellLayout& layout, std::size_t rank, const LocalTensor& local,
                const PartSize& size, Kernel& kernel, std::byte* part) {
  using Number = typename Kernel::Number;
  auto* values = reinterpret_cast<typename Kernel::Value*>(part);
  auto* raw = reinterpret_cast<Number*>(part + size.template value_bytes<Kernel>());
  for (std::int64_t row = 0; row < layout.rows; ++row) {
    const Number* row_data = static_cast<const Number*>(local.data) + row * local.row_stride;
    for (const Piece& lines : layout.lines.pieces[rank]) {
      const std::int64_t step = Kernel::kPerLine ? 1 : lines.count;
      for (std::int64_t line = 0; line < lines.count; line += step) {
        const Number* line_data = row_data + (lines.local_begin + line) * local.line_stride;
        for (const Piece& columns : layout.columns.pieces[rank]) {
          const Number* data = line_data + columns.local_begin;
          if (lines.whole && columns.whole) {
            kernel.reduce({data, local.line_stride, step, columns.count, columns.begin}, values);
            values += kernel.values(columns.count);
            continue;
          }
          for (std::int64_t i = 0; i < step; ++i) {
            raw = std::copy_n(data + i * local.line_stride, columns.count, raw);
          }
        }
      }
    }
  }
}

/// Reads the parts of all ranks in logical order.
template <typename Kernel>
class PartReader {
 public:
  using Number = typename Kernel::Number;
  using Value = typename Kernel::Value;

  PartReader(const std::vector<PartSize>& sizes, const std::vector<const std::byte*>& parts) {
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      const PartSize& size = sizes[rank];
      values_.push_back(reinterpret_cast<const Value*>(parts[rank]));
      raw_.push_back(parts[rank] == nullptr
                         ? nullptr
                         : reinterpret_cast<const Number*>(
                               parts[rank] + size.template value_bytes<Kernel>()));
    }
  }

  const Value* take_values(std::size_t rank, std::int64_t count) {
    const Value* begin = values_[rank];
    values_[rank] += count;
    return begin;
  }

  /// Puts the shares of lines [line, line + lines) × columns together. REQUIRES: not both whole.
  void take_raw(const Block& line_block, std::int64_t line, std::int64_t lines,
                const Block& columns, std::vector<Number>& cell) {
    cell.resize(static_cast<std::size_t>(lines * columns.count));
    std::int64_t covered = 0;
    if (line_block.whole()) {
      for (const Share& share : columns.shares) {
        put(share.rank, cell.data() + share.offset, columns.count, lines, share.count,
            share.offset < covered);
        covered = std::max(covered, share.offset + share.count);
      }
      return;
    }
    for (const Share& share : line_block.shares) {
      const std::int64_t from = std::max(line, share.offset);
      const std::int64_t to = std::min(line + lines, share.offset + share.count);
      if (from >= to) continue;
      put(share.rank, cell.data() + (from - line) * columns.count, columns.count, to - from,
          columns.count, from < covered);
      covered = std::max(covered, to);
    }
  }

 private:
  // The first share of an index is copied (adding to 0 would lose a negative zero), others added.
  void put(std::size_t rank, Number* target, std::int64_t stride, std::int64_t lines,
           std::int64_t count, bool adds) {
    for (std::int64_t i = 0; i < lines; ++i, target += stride) {
      const Number*& source = raw_[rank];
      for (std::int64_t k = 0; k < count; ++k) {
        target[k] = adds ? target[k] + source[k] : source[k];
      }
      source += count;
    }
  }

  std::vector<const Value*> values_;
  std::vector<const Number*> raw_;
};

/// Where a joined cell stands.
struct CellPlace {
  std::int64_t row = 0;
  std::int64_t line = 0;    // first line, counted from the first wanted one
  std::size_t block = 0;    // of lines
  std::size_t column = 0;   // block of columns
  std::int64_t begin = 0;   // first logical column
};

/// Leader: calls place(CellPlace) for every cell in logical order and leaves the cell's values
/// where the answer points.
template <typename Kernel, typename Place>
void join_cells(const CellLayout& layout, const std::vector<PartSize>& sizes,
                const std::vector<const std::byte*>& parts, Kernel& kernel, Place&& place) {
  PartReader<Kernel> reader(sizes, parts);
  std::vector<typename Kernel::Number> cell;
  for (std::int64_t row = 0; row < layout.rows; ++row) {
    for (std::size_t block = 0; block < layout.lines.blocks.size(); ++block) {
      const Block& lines = layout.lines.blocks[block];
      const std::int64_t step = Kernel::kPerLine ? 1 : lines.count;
      for (std::int64_t line = 0; line < lines.count; line += step) {
        for (std::size_t column = 0; column < layout.columns.blocks.size(); ++column) {
          const Block& columns = layout.columns.blocks[column];
          auto* out = place(CellPlace{row, lines.begin - layout.first_line + line, block, column,
                                      columns.begin});
          if (lines.whole() && columns.whole()) {
            const auto& shares = columns.shares.empty() ? lines.shares : columns.shares;
            const std::int64_t count = kernel.values(columns.count);
            std::copy_n(reader.take_values(shares.front().rank, count), count, out);
          } else {
            reader.take_raw(lines, line, step, columns, cell);
            kernel.reduce({cell.data(), columns.count, step, columns.count, columns.begin}, out);
          }
        }
      }
    }
  }
}

/// A packing that is a walk over cells.
template <typename Kernel>
class CellPacking : public Packing {
 public:
  std::size_t part_bytes(std::size_t rank) const override {
    return sizes_[rank].template bytes<Kernel>();
  }
  std::vector<std::int64_t> shape() const override { return shape_; }

 protected:
  CellPacking(CellLayout layout, std::vector<std::int64_t> shape, const Kernel& kernel)
      : layout_(std::move(layout)), shape_(std::move(shape)) {
    for (std::size_t rank = 0; rank < layout_.columns.pieces.size(); ++rank) {
      sizes_.push_back(part_size(layout_, rank, kernel));
    }
  }
  void pack_with(Kernel& kernel, std::size_t rank, const LocalTensor& local,
                 std::byte* part) const {
    pack_cells(layout_, rank, local, sizes_[rank], kernel, part);
  }
  template <typename Place>
  void join_with(Kernel& kernel, const std::vector<const std::byte*>& parts, Place&& place) const {
    join_cells(layout_, sizes_, parts, kernel, place);
  }

  const CellLayout layout_;
  const std::vector<std::int64_t> shape_;

 private:
  std::vector<PartSize> sizes_;  // by rank
};

}  // namespace tt::trace

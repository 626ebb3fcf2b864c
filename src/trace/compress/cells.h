#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
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
///       // Optional: neighbouring cells of one line, widths[i] columns each.
///       void reduce_neighbours(const Cell<Number>& all, const Number* readable_end,
///                              std::span<const std::int32_t> widths, Value* out);
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

/// Pieces of one rank that stand next to each other in its tensor, all whole or none.
struct PieceRun {
  Piece all;                         // from the first column of the first to the last of the last
  std::vector<std::int32_t> widths;  // of each
  std::int64_t values = 0;           // of each line, where they are whole
};

template <typename Kernel>
std::vector<PieceRun> runs_of(const std::vector<Piece>& pieces, const Kernel& kernel) {
  std::vector<PieceRun> runs;
  for (const Piece& piece : pieces) {
    const bool continues = !runs.empty() && runs.back().all.whole == piece.whole &&
                           runs.back().all.begin + runs.back().all.count == piece.begin &&
                           runs.back().all.local_begin + runs.back().all.count == piece.local_begin;
    if (!continues) runs.push_back({{piece.begin, piece.local_begin, 0, piece.whole}, {}, 0});
    runs.back().all.count += piece.count;
    runs.back().widths.push_back(static_cast<std::int32_t>(piece.count));
    runs.back().values += kernel.values(piece.count);
  }
  return runs;
}

/// Reduces the whole cells of a run.
template <typename Kernel>
void reduce_run(Kernel& kernel, Cell<typename Kernel::Number> all,
                const typename Kernel::Number* readable_end, const PieceRun& run,
                typename Kernel::Value* out) {
  if constexpr (requires { kernel.reduce_neighbours(all, readable_end, run.widths, out); }) {
    kernel.reduce_neighbours(all, readable_end, run.widths, out);
  } else {
    for (const std::int32_t width : run.widths) {
      all.width = width;
      kernel.reduce(all, out);
      out += kernel.values(width);
      all.data += width;
      all.first_column += width;
    }
  }
}

template <typename Kernel>
void pack_cells(const CellLayout& layout, std::size_t rank, const LocalTensor& local,
                const PartSize& size, const std::vector<PieceRun>& runs, Kernel& kernel,
                std::byte* part) {
  using Number = typename Kernel::Number;
  auto* values = reinterpret_cast<typename Kernel::Value*>(part);
  auto* raw = reinterpret_cast<Number*>(part + size.template value_bytes<Kernel>());
  const std::vector<Piece>& line_pieces = layout.lines.pieces[rank];
  if (runs.empty() || line_pieces.empty()) return;
  const auto line_at = [&](std::int64_t row, std::int64_t line) {
    return static_cast<const Number*>(local.data) + row * local.row_stride +
           line * local.line_stride;
  };
  const Piece& last = line_pieces.back();
  const Number* end = line_at(layout.rows - 1, last.local_begin + last.count - 1) +
                      runs.back().all.local_begin + runs.back().all.count;
  for (std::int64_t row = 0; row < layout.rows; ++row) {
    for (const Piece& lines : line_pieces) {
      const std::int64_t step = Kernel::kPerLine ? 1 : lines.count;
      for (std::int64_t line = 0; line < lines.count; line += step) {
        const Number* line_data = line_at(row, lines.local_begin + line);
        for (const PieceRun& run : runs) {
          const Number* data = line_data + run.all.local_begin;
          if (lines.whole && run.all.whole) {
            reduce_run(kernel, {data, local.line_stride, step, run.all.count, run.all.begin}, end,
                       run, values);
            values += run.values;
            continue;
          }
          for (const std::int32_t width : run.widths) {
            for (std::int64_t i = 0; i < step; ++i) {
              raw = std::copy_n(data + i * local.line_stride, width, raw);
            }
            data += width;
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
      raw_.push_back(
          parts[rank] == nullptr
              ? nullptr
              : reinterpret_cast<const Number*>(parts[rank] + size.template value_bytes<Kernel>()));
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

/// Where joined cells stand.
struct CellPlace {
  std::int64_t row = 0;
  std::int64_t line = 0;   // first line, counted from the first wanted one
  std::size_t block = 0;   // of lines
  std::size_t column = 0;  // block of columns
  std::int64_t begin = 0;  // first logical column
};

/// Neighbouring blocks of columns that travel as values of one rank, or one block that does not.
struct BlockRun {
  std::size_t first = 0;
  bool whole = true;
  std::size_t rank = 0;     // where they are whole and the axis is cut
  std::int64_t values = 0;  // of each line
};

template <typename Kernel>
std::vector<BlockRun> block_runs_of(const AxisCut& columns, const Kernel& kernel) {
  std::vector<BlockRun> runs;
  for (std::size_t i = 0; i < columns.blocks.size(); ++i) {
    const Block& block = columns.blocks[i];
    const std::size_t rank = block.shares.empty() ? 0 : block.shares.front().rank;
    const bool continues =
        !runs.empty() && runs.back().whole && block.whole() && runs.back().rank == rank;
    if (!continues) runs.push_back({i, block.whole(), rank, 0});
    runs.back().values += kernel.values(block.count);
  }
  return runs;
}

/// Leader: leaves the values of every cell where place(CellPlace) points; the values of
/// neighbouring blocks of columns stand next to each other.
template <typename Kernel, typename Place>
void join_cells(const CellLayout& layout, const std::vector<PartSize>& sizes,
                const std::vector<BlockRun>& runs, const std::vector<const std::byte*>& parts,
                Kernel& kernel, Place&& place) {
  PartReader<Kernel> reader(sizes, parts);
  std::vector<typename Kernel::Number> cell;
  const auto join_raw = [&](const Block& lines, std::int64_t line, std::int64_t step,
                            const Block& columns, typename Kernel::Value* out) {
    reader.take_raw(lines, line, step, columns, cell);
    kernel.reduce({cell.data(), columns.count, step, columns.count, columns.begin}, out);
  };
  for (std::int64_t row = 0; row < layout.rows; ++row) {
    for (std::size_t block = 0; block < layout.lines.blocks.size(); ++block) {
      const Block& lines = layout.lines.blocks[block];
      const std::int64_t step = Kernel::kPerLine ? 1 : lines.count;
      for (std::int64_t line = 0; line < lines.count; line += step) {
        for (std::size_t i = 0; i < runs.size(); ++i) {
          const BlockRun& run = runs[i];
          const Block& first = layout.columns.blocks[run.first];
          auto* out = place(CellPlace{row, lines.begin - layout.first_line + line, block, run.first,
                                      first.begin});
          if (lines.whole() && run.whole) {
            const std::size_t rank = first.shares.empty() ? lines.shares.front().rank : run.rank;
            std::copy_n(reader.take_values(rank, run.values), run.values, out);
            continue;
          }
          const std::size_t end =
              i + 1 < runs.size() ? runs[i + 1].first : layout.columns.blocks.size();
          for (std::size_t column = run.first; column < end; ++column) {
            join_raw(lines, line, step, layout.columns.blocks[column], out);
            out += kernel.values(layout.columns.blocks[column].count);
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
      runs_.push_back(runs_of(layout_.columns.pieces[rank], kernel));
    }
    block_runs_ = block_runs_of(layout_.columns, kernel);
  }
  void pack_with(Kernel& kernel, std::size_t rank, const LocalTensor& local,
                 std::byte* part) const {
    pack_cells(layout_, rank, local, sizes_[rank], runs_[rank], kernel, part);
  }
  template <typename Place>
  void join_with(Kernel& kernel, const std::vector<const std::byte*>& parts, Place&& place) const {
    join_cells(layout_, sizes_, block_runs_, parts, kernel, place);
  }

  const CellLayout layout_;
  const std::vector<std::int64_t> shape_;

 private:
  std::vector<PartSize> sizes_;              // by rank
  std::vector<std::vector<PieceRun>> runs_;  // of columns, by rank
  std::vector<BlockRun> block_runs_;         // of columns
};

}  // namespace tt::trace

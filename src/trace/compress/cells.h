#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "src/trace/device/launcher.h"
#include "src/trace/device/tables.h"
#include "tensor_tracer/trace/compressor.h"
#include "tensor_tracer/trace/layout.h"

/// The loop over cells (blocks of lines × blocks of columns) that all compressors share. A Method
/// defines how a cell is reduced:
///
///     struct Method : CellMethod {
///       using Number = float or double;         // of the tensor
///       using Value = …;                        // of a reduced cell
///       static constexpr std::string_view kCompressor = …;
///       static constexpr bool kPerLine = true;  // each line of a block is one cell
///       std::int64_t values(std::int64_t width) const;  // of a cell
///       Kernel kernel(const CaptureFacts& facts) const; // of the CPU, for one pack or join
///       // Optional: the kernel of a device, for tensors of this element (device/cells.h).
///       template <typename Element>
///       device::Prepared<Reducer<Element>> device(const CaptureFacts& facts, at::Device on) const;
///       // Optional: the numbers of the record from the values of all cells, in logical order;
///       // without it the values are the record. `lines`: of cells. `tails`: as `parts` of join.
///       void combine(const Kernel& kernel, std::span<Value> values, std::int64_t lines,
///                    const std::vector<const std::byte*>& tails, Number* out) const;
///       // Optional: does the same on a device (device/join.h). Each cell has one value. The
///       // caller sets cells, scratch and out.
///       Join device_join() const;
///     };
///     struct Kernel {
///       void reduce(const Cell<Number>& cell, Value* out);
///       // Optional: neighbouring cells of one line, widths[i] columns each.
///       void reduce_neighbours(const Cell<Number>& all, const Number* readable_end,
///                              std::span<const std::int32_t> widths, Value* out);
///       // Optional: after the last cell; `tail` has tail_bytes(), or is null on the leader.
///       void finish(std::byte* tail);
///     };
///
/// If one rank holds a whole cell, that rank calls reduce. Otherwise the leader calls reduce with
/// the joined columns. Both must give the same bits. A rank's part is all its values, then all its
/// raw columns, both in logical order, then its tail.
namespace tt::trace {

template <typename Number_>
struct Cell {
  const Number_* data = nullptr;
  std::int64_t stride = 0;  // from line to line
  std::int64_t lines = 0;
  std::int64_t width = 0;
  std::int64_t first_column = 0;  // logical
  std::int64_t first_line = 0;    // of the captured lines of all rows
};

/// Defaults of a Method.
struct CellMethod {
  static constexpr bool kPerLine = true;
  std::size_t tail_bytes() const { return 0; }
};

inline std::size_t padded_to_8(std::size_t bytes) { return (bytes + 7) / 8 * 8; }

/// Size of one rank's part.
struct PartSize {
  std::int64_t values = 0;
  std::int64_t raw = 0;
  std::size_t value_bytes = 0;
  std::size_t bytes = 0;  // without the tail
};

/// Neighbouring chunks in one rank's tensor. Either all of them are whole or none is.
struct ChunkRun {
  Chunk all;                         // from the first chunk's first column to the last chunk's end
  std::vector<std::int32_t> widths;  // of each chunk
  std::int64_t values = 0;           // of each line, if the chunks are whole
};

/// Neighbouring whole blocks of columns, which one rank sends as values; or one block that is not
/// whole.
struct BlockRun {
  std::size_t first = 0;
  bool whole = true;
  std::size_t rank = 0;     // if the blocks are whole and the axis is sharded
  std::int64_t values = 0;  // of each line
};

/// Reads the parts of all ranks in the order in which each rank has written its part: line chunk
/// after line chunk, and in it column chunk after column chunk.
template <typename Number, typename Value>
class PartReader {
 public:
  PartReader(const CellLayout& layout, const std::vector<PartSize>& sizes,
             const std::vector<const std::byte*>& parts)
      : layout_(layout) {
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      const std::byte* part = parts[rank];
      values_.push_back(reinterpret_cast<const Value*>(part));
      raw_.push_back(part == nullptr
                         ? nullptr
                         : reinterpret_cast<const Number*>(part + sizes[rank].value_bytes));
    }
  }

  const Value* take_values(const Block& lines, const Block& columns, std::int64_t count) {
    const Value*& values = values_[rank_of(shares_of(lines)[0], shares_of(columns)[0])];
    return std::exchange(values, values + count);
  }

  /// Joins the shares of `lines` lines of one rank and all columns of the block. REQUIRES: the
  /// block of lines is whole.
  void take_columns(const Block& line_block, std::int64_t lines, const Block& columns,
                    std::vector<Number>& cell) {
    cell.resize(static_cast<std::size_t>(lines * columns.count));
    take(shares_of(line_block)[0].rank, lines, columns, cell.data(), false);
  }

  /// Joins the shares of lines [line, line + lines) of the block: a cell for each block of columns.
  void take_lines(const Block& line_block, std::int64_t line, std::int64_t lines,
                  std::vector<std::vector<Number>>& cells) {
    const std::vector<Block>& columns = layout_.columns.blocks;
    cells.resize(columns.size());
    for (std::size_t i = 0; i < columns.size(); ++i)
      cells[i].resize(static_cast<std::size_t>(lines * columns[i].count));
    std::int64_t covered = 0;
    for (const Share& share : line_block.shares) {
      const std::int64_t from = std::max(line, share.offset);
      const std::int64_t to = std::min(line + lines, share.offset + share.count);
      if (from >= to) continue;
      for (std::size_t i = 0; i < columns.size(); ++i)
        take(share.rank, to - from, columns[i], cells[i].data() + (from - line) * columns[i].count,
             from < covered);
      covered = std::max(covered, to);
    }
  }

 private:
  static std::span<const Share> shares_of(const Block& block) {
    static constexpr Share kOfAll;
    return block.shares.empty() ? std::span(&kOfAll, 1) : std::span(block.shares);
  }

  std::size_t rank_of(const Share& lines, const Share& columns) const {
    return lines.rank * layout_.column_ranks + columns.rank;
  }

  // Lines of one rank along the axis of lines.
  void take(std::size_t line_rank, std::int64_t lines, const Block& columns, Number* cell,
            bool adds) {
    std::int64_t covered = 0;
    for (const Share& share : shares_of(columns)) {
      const std::int64_t count = columns.shares.empty() ? columns.count : share.count;
      put(line_rank * layout_.column_ranks + share.rank, cell + share.offset, columns.count, lines,
          count, adds || share.offset < covered);
      covered = std::max(covered, share.offset + count);
    }
  }

  // The first share of an index is copied, because adding it to 0 would lose a negative zero. The
  // next shares are added.
  void put(std::size_t rank, Number* target, std::int64_t stride, std::int64_t lines,
           std::int64_t count, bool adds) {
    for (std::int64_t i = 0; i < lines; ++i, target += stride) {
      const Number*& source = raw_[rank];
      for (std::int64_t k = 0; k < count; ++k) target[k] = adds ? target[k] + source[k] : source[k];
      source += count;
    }
  }

  const CellLayout& layout_;
  std::vector<const Value*> values_;
  std::vector<const Number*> raw_;
};

/// The packing of a Method.
template <typename Method>
class CellPacking final : public Packing {
 public:
  using Number = typename Method::Number;
  using Value = typename Method::Value;

  CellPacking(const LogicalShape& shape, const CellLayout& layout,
              std::vector<std::int64_t> record_shape, Method method)
      : method_(std::move(method)),
        layout_(layout),
        shape_(std::move(record_shape)),
        first_line_(shape.first_line),
        captured_lines_(shape.captured_lines()),
        cells_of_lines_(shape.rows * (Method::kPerLine
                                          ? shape.captured_lines()
                                          : static_cast<std::int64_t>(layout.lines.blocks.size()))),
        kernels_(Method::kCompressor, make_kernels()),
        tables_(layout, shape, Method::kPerLine,
                [this](std::int64_t width) { return method_.values(width); }),
        places_(layout) {
    for (std::size_t rank = 0; rank < layout_.columns.chunks.size(); ++rank) {
      sizes_.push_back(size_of_part(rank));
      runs_.push_back(runs_of(layout_.columns.chunks[rank]));
    }
    for (std::size_t i = 0; i < layout_.columns.blocks.size(); ++i) add_block(i);
  }

  CellPacking(const CellPacking&) = delete;  // the kernels refer to this object

  std::size_t part_bytes(std::size_t rank) const override {
    const std::size_t bytes = sizes_[rank].bytes;
    return bytes == 0 ? 0 : bytes + method_.tail_bytes();
  }
  std::vector<std::int64_t> shape() const override { return shape_; }
  const PackKernels& kernels() const override { return kernels_; }

  DeviceJoin device_join(at::Device on) const override {
    if constexpr (requires { &Method::device_join; }) {
      auto join = method_.device_join();
      using Join = decltype(join);
      static_assert(!Method::kPerLine && std::is_same_v<typename Join::Value, Value>);
      if (device::JoinLauncher<Join>::launch == nullptr || !places_.has_all()) return {};
      join.cells = places_.template cells<Value>(on);
      return [this, on, join](const std::vector<const std::byte*>& parts, std::byte* out) {
        launch_join(join, on, parts, out);
      };
    }
    return {};
  }

  void join(const CaptureFacts& facts, const std::vector<const std::byte*>& parts,
            std::byte* out) const override {
    auto kernel = method_.kernel(facts);
    if constexpr (requires { &Method::combine; }) {
      std::vector<Value> values(static_cast<std::size_t>(cells_of_lines_ * values_of_line_));
      join_cells(parts, kernel, values.data());
      std::vector<const std::byte*> tails;
      for (std::size_t rank = 0; rank < parts.size(); ++rank)
        tails.push_back(parts[rank] == nullptr ? nullptr : parts[rank] + sizes_[rank].bytes);
      method_.combine(kernel, values, cells_of_lines_, tails, reinterpret_cast<Number*>(out));
    } else {
      join_cells(parts, kernel, reinterpret_cast<Value*>(out));
      finish(kernel, nullptr);
    }
  }

 private:
  std::map<at::DeviceType, PackKernel> make_kernels() {
    std::map<at::DeviceType, PackKernel> kernels = {
        {at::kCPU,
         [this](const CaptureFacts& facts, std::size_t rank, const at::Tensor& local,
                std::span<std::byte> part) { pack_on_cpu(facts, rank, local, part.data()); }}};
    if constexpr (requires { &Method::template device<Number>; }) {
      if (device::has_kernels()) {
        kernels[at::kCUDA] = [this](const CaptureFacts& facts, std::size_t rank,
                                    const at::Tensor& local, std::span<std::byte> part) {
          pack_on_device(facts, rank, local, part.data());
        };
      }
    }
    return kernels;
  }

  PartSize size_of_part(std::size_t rank) const {
    PartSize size;
    for (const Chunk& lines : layout_.lines.chunks[rank]) {
      for (const Chunk& columns : layout_.columns.chunks[rank])
        if (lines.whole && columns.whole)
          size.values += method_.values(columns.count) * (Method::kPerLine ? lines.count : 1);
        else
          size.raw += lines.count * columns.count;
    }
    size.values *= layout_.rows;
    size.raw *= layout_.rows;
    size.value_bytes = padded_to_8(static_cast<std::size_t>(size.values) * sizeof(Value));
    size.bytes =
        size.value_bytes + padded_to_8(static_cast<std::size_t>(size.raw) * sizeof(Number));
    return size;
  }

  std::vector<ChunkRun> runs_of(const std::vector<Chunk>& chunks) const {
    std::vector<ChunkRun> runs;
    for (const Chunk& chunk : chunks) {
      const bool continues =
          !runs.empty() && runs.back().all.whole == chunk.whole &&
          runs.back().all.begin + runs.back().all.count == chunk.begin &&
          runs.back().all.local_begin + runs.back().all.count == chunk.local_begin;
      if (!continues) runs.push_back({{chunk.begin, chunk.local_begin, 0, chunk.whole}, {}, 0});
      runs.back().all.count += chunk.count;
      runs.back().widths.push_back(static_cast<std::int32_t>(chunk.count));
      runs.back().values += method_.values(chunk.count);
    }
    return runs;
  }

  void add_block(std::size_t index) {
    const Block& block = layout_.columns.blocks[index];
    const std::size_t rank = block.shares.empty() ? 0 : block.shares.front().rank;
    const bool continues = !block_runs_.empty() && block_runs_.back().whole && block.whole() &&
                           block_runs_.back().rank == rank;
    if (!continues) block_runs_.push_back({index, block.whole(), rank, 0});
    const std::int64_t values = method_.values(block.count);
    block_runs_.back().values += values;
    values_of_line_ += values;
  }

  template <typename Kernel>
  static void finish(Kernel& kernel, std::byte* tail) {
    if constexpr (requires { kernel.finish(tail); }) kernel.finish(tail);
  }

  // Reduces the cells of a whole run.
  template <typename Kernel>
  void reduce_run(Kernel& kernel, Cell<Number> all, const Number* readable_end, const ChunkRun& run,
                  Value* out) const {
    if constexpr (requires { kernel.reduce_neighbours(all, readable_end, run.widths, out); }) {
      kernel.reduce_neighbours(all, readable_end, run.widths, out);
    } else {
      for (const std::int32_t width : run.widths) {
        all.width = width;
        kernel.reduce(all, out);
        out += method_.values(width);
        all.data += width;
        all.first_column += width;
      }
    }
  }

  static Number* copy_run(const Cell<Number>& all, const ChunkRun& run, Number* raw) {
    const Number* data = all.data;
    for (const std::int32_t width : run.widths) {
      for (std::int64_t i = 0; i < all.lines; ++i)
        raw = std::copy_n(data + i * all.stride, width, raw);
      data += width;
    }
    return raw;
  }

  void pack_on_cpu(const CaptureFacts& facts, std::size_t rank, const at::Tensor& local,
                   std::byte* part) const {
    const std::vector<ChunkRun>& runs = runs_[rank];
    const std::vector<Chunk>& line_chunks = layout_.lines.chunks[rank];
    auto kernel = method_.kernel(facts);
    auto* values = reinterpret_cast<Value*>(part);
    auto* raw = reinterpret_cast<Number*>(part + sizes_[rank].value_bytes);
    const auto* first = local.const_data_ptr<Number>();
    const std::int64_t row_stride = local.stride(0), line_stride = local.stride(1);
    const Chunk& last = line_chunks.back();
    const Number* end = first + (layout_.rows - 1) * row_stride +
                        (last.local_begin + last.count - 1) * line_stride +
                        runs.back().all.local_begin + runs.back().all.count;
    for (std::int64_t row = 0; row < layout_.rows; ++row) {
      for (const Chunk& lines : line_chunks) {
        const std::int64_t step = Method::kPerLine ? 1 : lines.count;
        for (std::int64_t line = 0; line < lines.count; line += step) {
          const Number* line_data =
              first + row * row_stride + (lines.local_begin + line) * line_stride;
          for (const ChunkRun& run : runs) {
            const Cell<Number> all{line_data + run.all.local_begin,
                                   line_stride,
                                   step,
                                   run.all.count,
                                   run.all.begin,
                                   row * captured_lines_ + lines.begin + line - first_line_};
            if (lines.whole && run.all.whole) {
              reduce_run(kernel, all, end, run, values);
              values += run.values;
            } else {
              raw = copy_run(all, run, raw);
            }
          }
        }
      }
    }
    finish(kernel, part + sizes_[rank].bytes);
  }

  void pack_on_device(const CaptureFacts& facts, std::size_t rank, const at::Tensor& local,
                      std::byte* part) const {
    if constexpr (std::is_same_v<Number, double>) {
      return launch<double>(facts, rank, local, part);
    } else {
      switch (local.scalar_type()) {
        case at::kBFloat16:
          return launch<device::BFloat16>(facts, rank, local, part);
        case at::kHalf:
          return launch<device::Half>(facts, rank, local, part);
        default:
          return launch<float>(facts, rank, local, part);
      }
    }
  }

  template <typename Element>
  void launch(const CaptureFacts& facts, std::size_t rank, const at::Tensor& local,
              std::byte* part) const {
    const at::Device on = local.device();
    device::PackJob job = tables_.job(rank, on);
    job.data = local.const_data_ptr();
    job.row_stride = local.stride(0);
    job.line_stride = local.stride(1);
    job.values = part;
    job.raw = part + sizes_[rank].value_bytes;
    if (method_.tail_bytes() > 0) job.tail = part + sizes_[rank].bytes;
    const auto prepared = method_.template device<Element>(facts, on);
    using Reducer = std::remove_cvref_t<decltype(prepared.reducer)>;
    static_assert(std::is_same_v<typename Reducer::Value, Value>);
    device::Launcher<Reducer>::launch(job, prepared.reducer, device::current_stream(on));
  }

  template <typename Join>
  void launch_join(Join join, at::Device on, const std::vector<const std::byte*>& parts,
                   std::byte* out) const {
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      if (parts[rank] == nullptr) continue;
      join.cells.ranks[rank].values = reinterpret_cast<const Value*>(parts[rank]);
      join.cells.ranks[rank].tail = parts[rank] + sizes_[rank].bytes;
    }
    // Freed memory is used again on the same stream only, so after the kernels.
    const at::Tensor scratch = device::scratch_memory(join.scratch_bytes(), on);
    join.scratch = static_cast<std::byte*>(scratch.mutable_data_ptr());
    join.out = reinterpret_cast<Number*>(out);
    device::JoinLauncher<Join>::launch(join, device::current_stream(on));
  }

  // Leader: the values of every cell, in logical order.
  template <typename Kernel>
  void join_cells(const std::vector<const std::byte*>& parts, Kernel& kernel, Value* out) const {
    PartReader<Number, Value> reader(layout_, sizes_, parts);
    std::vector<std::vector<Number>> cells(1);
    for (std::int64_t row = 0; row < layout_.rows; ++row) {
      for (const Block& lines : layout_.lines.blocks) {
        const std::int64_t step = Method::kPerLine ? 1 : lines.count;
        for (std::int64_t line = 0; line < lines.count; line += step) {
          const std::int64_t first = row * captured_lines_ + lines.begin + line - first_line_;
          if (lines.whole()) {
            out = join_runs(reader, kernel, lines, {.lines = step, .first_line = first}, cells[0],
                            out);
            continue;
          }
          reader.take_lines(lines, line, step, cells);
          for (std::size_t i = 0; i < cells.size(); ++i)
            out = reduce_joined(kernel, i, {.lines = step, .first_line = first}, cells[i], out);
        }
      }
    }
  }

  // The cells of lines that one rank along the axis of lines holds. `of`: its lines.
  template <typename Kernel>
  Value* join_runs(PartReader<Number, Value>& reader, Kernel& kernel, const Block& lines,
                   const Cell<Number>& of, std::vector<Number>& cell, Value* out) const {
    for (std::size_t i = 0; i < block_runs_.size(); ++i) {
      const BlockRun& run = block_runs_[i];
      if (run.whole) {
        const Block& first = layout_.columns.blocks[run.first];
        out = std::copy_n(reader.take_values(lines, first, run.values), run.values, out);
        continue;
      }
      const std::size_t end =
          i + 1 < block_runs_.size() ? block_runs_[i + 1].first : layout_.columns.blocks.size();
      for (std::size_t column = run.first; column < end; ++column) {
        reader.take_columns(lines, of.lines, layout_.columns.blocks[column], cell);
        out = reduce_joined(kernel, column, of, cell, out);
      }
    }
    return out;
  }

  template <typename Kernel>
  Value* reduce_joined(Kernel& kernel, std::size_t column, Cell<Number> of,
                       const std::vector<Number>& joined, Value* out) const {
    const Block& columns = layout_.columns.blocks[column];
    of.data = joined.data();
    of.stride = of.width = columns.count;
    of.first_column = columns.begin;
    kernel.reduce(of, out);
    return out + method_.values(columns.count);
  }

  const Method method_;
  const CellLayout layout_;
  const std::vector<std::int64_t> shape_;
  const std::int64_t first_line_, captured_lines_;
  const std::int64_t cells_of_lines_;
  const PackKernels kernels_;
  const device::JobTables tables_;
  const device::PlaceTables places_;
  std::vector<PartSize> sizes_;              // by rank
  std::vector<std::vector<ChunkRun>> runs_;  // of columns, by rank
  std::vector<BlockRun> block_runs_;         // of columns
  std::int64_t values_of_line_ = 0;          // of a line, or of a block of lines
};

/// The packing of Method<float> or Method<double>.
template <template <typename> typename Method, typename... Arguments>
std::shared_ptr<const Packing> make_cell_packing(bool is_double, const LogicalShape& shape,
                                                 const CellLayout& layout,
                                                 std::vector<std::int64_t> record_shape,
                                                 const Arguments&... arguments) {
  if (is_double) {
    return std::make_shared<CellPacking<Method<double>>>(shape, layout, std::move(record_shape),
                                                         Method<double>{{}, arguments...});
  }
  return std::make_shared<CellPacking<Method<float>>>(shape, layout, std::move(record_shape),
                                                      Method<float>{{}, arguments...});
}

}  // namespace tt::trace

#pragma once

#include <cstddef>
#include <cstdint>

#include "src/trace/device/numbers.h"

/// The loop over the cells of compress/cells.h, for devices. A Reducer is the device's form of a
/// Method:
///
///     struct Reducer {
///       using Element = …;                     // of the tensor
///       using Value = …;                       // of a reduced cell, as in the Method
///       static constexpr int kThreads = …;     // of the team that reduces a cell
///       struct Shared { … };                   // the team's memory; not initialized
///       // Once for each pack, before all teams, by one thread. `tail` as in Method::Kernel.
///       void start(std::byte* tail) const;
///       // Each team, before its first and after its last cell.
///       template <typename Team> void begin(Team& team, Shared& shared) const;
///       template <typename Team> void finish(Team& team, Shared& shared, std::byte* tail) const;
///       template <typename Team>
///       void reduce(Team& team, const DeviceCell<Element>& cell, Shared& shared, Value* out)
///       const;
///     };
///
/// A Team runs a function for each of its threads and then waits for all of them:
///
///     team.each([&](int thread) { … });
///     team.value(x)         // x; the next each() may change x
///     team.add(counter, n)  // atomic, also over teams; returns the earlier value
///     team.take_least(number, x), team.take_most(number, x)  // atomic, also over teams
///
/// Outside of each() all threads of a team do the same and write nothing but their own variables;
/// what they read there, the next each() does not change.
/// So the CPU can run the threads of a team one after the other, in any order, and must get the
/// same bits: tests do so.
namespace tt::trace::device {

/// Running sums of reductions.h: each is over every eighth number.
constexpr int kLanes = 8;

/// A run of columns of a rank's tensor that is reduced as one unit, or copied.
struct ColumnChunk {
  std::int64_t local_begin, begin;  // in the rank's tensor; logical
  std::int64_t width;
  std::int64_t value_offset;    // of a unit of lines, if chunk and lines are whole
  std::int64_t raw_offset;      // per line, if the lines are whole and the chunk is not
  std::int64_t all_raw_offset;  // per line, if the lines are not whole
  bool whole;
};

/// Lines of a rank's tensor, in units of `step` lines.
struct LineChunk {
  std::int64_t local_begin, begin;
  std::int64_t step;
  std::int64_t first_unit, units;
  std::int64_t value_offset, raw_offset;  // of the first unit
  bool whole;
};

/// One pack: where the numbers are, and where the results go. Strides, offsets and sizes count
/// numbers or values, not bytes. The tables, the tensor and the part are on one device.
struct PackJob {
  const ColumnChunk* columns = nullptr;
  const LineChunk* lines = nullptr;
  std::int64_t column_count = 0, line_count = 0;
  std::int64_t rows = 0, units = 0;  // units: of a row
  std::int64_t values_of_row = 0, raw_of_row = 0;
  std::int64_t values_of_unit = 0, raw_of_line = 0, all_raw_of_line = 0;  // of all columns
  std::int64_t first_line = 0, captured_lines = 0;
  const void* data = nullptr;
  std::int64_t row_stride = 0, line_stride = 0;
  std::byte* values = nullptr;
  std::byte* raw = nullptr;
  std::byte* tail = nullptr;

  TT_BOTH std::int64_t cells() const { return rows * units * column_count; }
};

/// As Cell, with the tensor's own elements.
template <typename Element_>
struct DeviceCell {
  using Element = Element_;
  const Element* data;
  std::int64_t stride, lines, width;
  std::int64_t first_column, first_line;

  TT_BOTH NumberOf<Element> at(std::int64_t line, std::int64_t column) const {
    return to_number(data[line * stride + column]);
  }
};

/// The place of a cell: one of `value` and `raw` counts.
template <typename Element>
struct PlacedCell {
  DeviceCell<Element> cell;
  bool whole;
  std::int64_t offset;  // into the values, or into the raw numbers
};

TT_BOTH inline const LineChunk& lines_of_unit(const PackJob& job, std::int64_t unit) {
  std::int64_t first = 0, last = job.line_count - 1;
  while (first < last) {
    const std::int64_t middle = (first + last + 1) / 2;
    if (job.lines[middle].first_unit <= unit)
      first = middle;
    else
      last = middle - 1;
  }
  return job.lines[first];
}

template <typename Element>
TT_BOTH PlacedCell<Element> cell_at(const PackJob& job, std::int64_t index) {
  const ColumnChunk& columns = job.columns[index % job.column_count];
  const std::int64_t unit_of_all = index / job.column_count;
  const std::int64_t row = unit_of_all / job.units;
  const LineChunk& lines = lines_of_unit(job, unit_of_all % job.units);
  const std::int64_t unit = unit_of_all % job.units - lines.first_unit;
  const std::int64_t line = unit * lines.step;
  const Element* data = static_cast<const Element*>(job.data) + row * job.row_stride +
                        (lines.local_begin + line) * job.line_stride + columns.local_begin;
  const DeviceCell<Element> cell{
      data,          job.line_stride,
      lines.step,    columns.width,
      columns.begin, row * job.captured_lines + lines.begin + line - job.first_line};
  if (lines.whole && columns.whole) {
    return {cell, true,
            row * job.values_of_row + lines.value_offset + unit * job.values_of_unit +
                columns.value_offset};
  }
  const std::int64_t of_line = lines.whole ? job.raw_of_line : job.all_raw_of_line;
  const std::int64_t offset = lines.whole ? columns.raw_offset : columns.all_raw_offset;
  return {cell, false,
          row * job.raw_of_row + lines.raw_offset + line * of_line + lines.step * offset};
}

/// Copies a cell, line by line.
template <typename Team, typename Element>
TT_BOTH void copy_cell(Team& team, const DeviceCell<Element>& cell, NumberOf<Element>* out) {
  team.each([&](int thread) {
    for (std::int64_t i = thread; i < cell.lines * cell.width; i += team.size())
      out[i] = cell.at(i / cell.width, i % cell.width);
  });
}

/// The cells of one team: `first`, and every `step`-th after it.
template <typename Team, typename Reducer>
TT_BOTH void pack_cells(Team& team, const PackJob& job, const Reducer& reducer,
                        typename Reducer::Shared& shared, std::int64_t first, std::int64_t step) {
  using Element = typename Reducer::Element;
  reducer.begin(team, shared);
  for (std::int64_t index = first; index < job.cells(); index += step) {
    const PlacedCell<Element> at = cell_at<Element>(job, index);
    if (at.whole) {
      reducer.reduce(team, at.cell, shared,
                     reinterpret_cast<typename Reducer::Value*>(job.values) + at.offset);
    } else {
      copy_cell(team, at.cell, reinterpret_cast<NumberOf<Element>*>(job.raw) + at.offset);
    }
  }
  reducer.finish(team, shared, job.tail);
}

/// A reducer without a tail and without state between cells.
template <typename Element_>
struct PlainReducer {
  using Element = Element_;
  using Number = NumberOf<Element>;
  TT_BOTH void start(std::byte* /*tail*/) const {}
  template <typename Team, typename Shared>
  TT_BOTH void begin(Team& /*team*/, Shared& /*shared*/) const {}
  template <typename Team, typename Shared>
  TT_BOTH void finish(Team& /*team*/, Shared& /*shared*/, std::byte* /*tail*/) const {}
};

}  // namespace tt::trace::device

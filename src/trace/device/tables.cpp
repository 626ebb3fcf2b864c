#include "src/trace/device/tables.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstring>
#include <span>

#include "tensor_tracer/comm/process_group.h"

namespace tt::trace::device {
namespace {

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& table) {
  return std::as_bytes(std::span(table));
}

}  // namespace

PackJob JobTables::job(std::size_t rank, at::Device device) const {
  const std::scoped_lock lock(mutex_);
  auto& tables = tables_[{rank, device}];
  if (!tables.memory.defined()) tables = make(rank, device);
  return tables.job;
}

JobTables::Tables JobTables::make(std::size_t rank, at::Device device) const {
  Tables tables;
  PackJob& job = tables.job;
  job.rows = layout_.rows;
  job.first_line = first_line_;
  job.captured_lines = captured_lines_;
  const std::vector<ColumnChunk> columns = columns_of(rank, job);
  const std::vector<LineChunk> lines = lines_of(rank, job);
  static_assert(alignof(ColumnChunk) == 8 && alignof(LineChunk) == 8);
  const auto column_bytes = bytes_of(columns), line_bytes = bytes_of(lines);
  const at::Tensor host = at::empty({std::ssize(column_bytes) + std::ssize(line_bytes)},
                                    at::device(at::kCPU).dtype(at::kByte));
  auto* to = static_cast<std::byte*>(host.mutable_data_ptr());
  std::memcpy(to, column_bytes.data(), column_bytes.size());
  std::memcpy(to + column_bytes.size(), line_bytes.data(), line_bytes.size());
  tables.memory = host.to(device);
  const auto* first = static_cast<const std::byte*>(tables.memory.const_data_ptr());
  job.columns = reinterpret_cast<const ColumnChunk*>(first);
  job.lines = reinterpret_cast<const LineChunk*>(first + column_bytes.size());
  return tables;
}

std::vector<ColumnChunk> JobTables::columns_of(std::size_t rank, PackJob& job) const {
  std::vector<ColumnChunk> columns;
  for (const Chunk& chunk : layout_.columns.chunks[rank]) {
    columns.push_back({chunk.local_begin, chunk.begin, chunk.count, job.values_of_unit,
                       job.raw_of_line, job.all_raw_of_line, chunk.whole});
    job.values_of_unit += chunk.whole ? values_(chunk.count) : 0;
    job.raw_of_line += chunk.whole ? 0 : chunk.count;
    job.all_raw_of_line += chunk.count;
  }
  job.column_count = std::ssize(columns);
  return columns;
}

std::vector<LineChunk> JobTables::lines_of(std::size_t rank, PackJob& job) const {
  std::vector<LineChunk> lines;
  for (const Chunk& chunk : layout_.lines.chunks[rank]) {
    const std::int64_t step = per_line_ ? 1 : chunk.count, units = chunk.count / step;
    lines.push_back({chunk.local_begin, chunk.begin, step, job.units, units, job.values_of_row,
                     job.raw_of_row, chunk.whole});
    job.units += units;
    job.values_of_row += chunk.whole ? units * job.values_of_unit : 0;
    job.raw_of_row += chunk.count * (chunk.whole ? job.raw_of_line : job.all_raw_of_line);
  }
  job.line_count = std::ssize(lines);
  return lines;
}

PlaceTables::PlaceTables(const CellLayout& layout)
    : rows_(layout.rows), column_count_(std::ssize(layout.columns.blocks)) {
  add_places(layout.columns, 1);
  add_places(layout.lines, layout.column_ranks);
  for (std::size_t rank = 0; rank < layout.lines.chunks.size(); ++rank)
    blocks_.emplace_back(std::ssize(layout.lines.chunks[rank]),
                         std::ssize(layout.columns.chunks[rank]));
  has_all_ = has_all_ && blocks_.size() <= kMaxJoinedRanks;
}

void PlaceTables::add_places(const AxisLayout& axis, std::size_t stride) {
  std::vector<std::int64_t> next(axis.chunks.size(), 0);
  for (const Block& block : axis.blocks) {
    const std::size_t rank = block.shares.empty() ? 0 : block.shares.front().rank;
    places_.push_back({static_cast<std::int64_t>(rank * stride), next[rank]++});
    has_all_ = has_all_ && block.whole();
  }
}

// The host waits for the copy, so all streams can use it.
const BlockPlace* PlaceTables::places_on(at::Device device) const {
  const std::scoped_lock lock(mutex_);
  at::Tensor& copied = on_device_[device];
  if (!copied.defined()) copied = comm::host_bytes(bytes_of(places_)).to(device);
  return static_cast<const BlockPlace*>(copied.const_data_ptr());
}

at::Tensor scratch_memory(std::int64_t bytes, at::Device device) {
  return at::empty({bytes}, at::device(device).dtype(at::kByte));
}

void* current_stream(at::Device device) {
  if (device.is_cpu()) return nullptr;
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device).native_handle();
}

}  // namespace tt::trace::device

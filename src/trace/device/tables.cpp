#include "src/trace/device/tables.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstring>
#include <span>

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

void* current_stream(at::Device device) {
  if (device.is_cpu()) return nullptr;
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device).native_handle();
}

}  // namespace tt::trace::device

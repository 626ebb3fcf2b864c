#include "src/record/export/arrays.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "src/record/export/failure.h"
#include "src/record/export/values.h"

namespace tt::record {
namespace {

using protocol::Dtype;
using protocol::RecordView;

template <typename T>
std::span<const std::byte> bytes(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

std::vector<std::uint64_t> stacked(const Series& series, std::vector<std::uint64_t> shape) {
  shape.insert(shape.begin(), series.records);
  return shape;
}

// The dtype in which a series is written.
Dtype written_dtype(Dtype dtype, const ArrayOptions& options) {
  if ((dtype == Dtype::kBf16 && !options.bf16) || (dtype == Dtype::kU8 && !options.raw)) {
    return Dtype::kF32;
  }
  return dtype;
}

std::size_t line_bytes(const RecordView& record) {
  const std::size_t codes =
      record.header.ndim == 0 ? 1 : record.header.shape[record.header.ndim - 1];
  return record.payload.size() / (codes + protocol::kU8LineBytes) * protocol::kU8LineBytes;
}

Array codes(const Source& source, const Series& series, const std::string& name) {
  return {.name = name,
          .dtype = Dtype::kU8,
          .shape = stacked(series, series.shape),
          .write = [&source, &series](const ByteSink& sink) {
            source.reader.records(series, [&](const RecordView& record) {
              sink(record.payload.subspan(line_bytes(record)));
            });
          }};
}

Array offsets_and_scales(const Source& source, const Series& series, const std::string& name) {
  std::vector<std::uint64_t> shape = series.shape;
  if (!shape.empty()) {
    shape.pop_back();
  }
  shape.push_back(2);
  return {.name = name + ".lines",
          .dtype = Dtype::kF32,
          .shape = stacked(series, shape),
          .write = [&source, &series](const ByteSink& sink) {
            source.reader.records(series, [&](const RecordView& record) {
              sink(record.payload.first(line_bytes(record)));
            });
          }};
}

Array numbers(const Source& source, const Series& series, const std::string& name,
              const ArrayOptions& options) {
  const Dtype dtype = written_dtype(series.dtype, options);
  return {.name = name,
          .dtype = dtype,
          .shape = stacked(series, series.shape),
          .write = [&source, &series, as_is = dtype == series.dtype](const ByteSink& sink) {
            source.reader.records(series, [&](const RecordView& record) {
              if (as_is) {
                sink(record.payload);
              } else {
                std::visit([&](const auto& values) { sink(bytes(values)); }, decode(record));
              }
            });
          }};
}

Array index(const Source& source, const Series& series, std::string name,
            std::int64_t Place::*member) {
  return {.name = std::move(name),
          .dtype = Dtype::kI64,
          .shape = {series.records},
          .write = [&source, &series, member](const ByteSink& sink) {
            source.reader.places(series, [&](const Place& place) {
              sink(std::as_bytes(std::span(&(place.*member), 1)));
            });
          }};
}

void add_series(const Source& source, const Series& series, const std::string& name,
                const ArrayOptions& options, std::vector<Array>& out) {
  if (protocol::dtype_bytes(series.dtype) == 0) {
    throw Failure({.code = "unsupported_version",
                   .message = name + " has a dtype that this version does not know",
                   .remedy = "name other points with --point, or use a newer version"});
  }
  const bool is_empty = std::ranges::find(series.shape, 0U) != series.shape.end();
  if (series.dtype == Dtype::kU8 && options.raw && !is_empty) {
    out.push_back(codes(source, series, name));
    out.push_back(offsets_and_scales(source, series, name));
  } else {
    out.push_back(numbers(source, series, name, options));
  }
  out.push_back(index(source, series, name + ".steps", &Place::step));
  if (series.micro_batches) {
    out.push_back(index(source, series, name + ".micro_batches", &Place::micro_batch));
  }
  if (series.first_rows) {
    out.push_back(index(source, series, name + ".first_rows", &Place::first_row));
  }
  if (series.plans) {
    out.push_back(index(source, series, name + ".plans", &Place::plan));
  }
}

void add_scalars(const ScalarTable& table, std::vector<Array>& out) {
  if (table.steps.empty()) {
    return;
  }
  const auto whole = [&](const std::string& name, const std::vector<std::uint64_t>& values) {
    out.push_back({.name = "scalars." + name,
                   .dtype = Dtype::kI64,
                   .shape = {values.size()},
                   .write = [&values](const ByteSink& sink) { sink(bytes(values)); }});
  };
  whole("step", table.steps);
  whole("time_ns", table.time_ns);
  for (const auto& entry : table.columns) {
    const std::vector<std::optional<double>>& column = entry.second;
    out.push_back({.name = "scalars." + entry.first,
                   .dtype = Dtype::kF64,
                   .shape = {column.size()},
                   .write = [&column](const ByteSink& sink) {
                     for (const std::optional<double>& value : column) {
                       const double number =
                           value.value_or(std::numeric_limits<double>::quiet_NaN());
                       sink(std::as_bytes(std::span(&number, 1)));
                     }
                   }});
  }
}

}  // namespace

std::uint64_t bytes_of(const Array& array) {
  std::uint64_t count = protocol::dtype_bytes(array.dtype);
  for (const std::uint64_t extent : array.shape) {
    count *= extent;
  }
  return count;
}

std::vector<Array> make_arrays(const Source& source, const ArrayOptions& options) {
  std::vector<Array> out;
  for (std::size_t i = 0; i < source.series.size(); ++i) {
    add_series(source, source.series[i], source.series_names[i].array, options, out);
  }
  add_scalars(source.scalars, out);
  std::set<std::string> taken;
  for (const Array& array : out) {
    if (!taken.insert(array.name).second) {
      throw Failure({.code = "invalid_argument",
                     .message = "two arrays would be called " + array.name,
                     .remedy = "name fewer points with --point"});
    }
  }
  return out;
}

}  // namespace tt::record

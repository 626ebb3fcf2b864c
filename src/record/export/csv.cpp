#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <type_traits>

#include "src/record/export/exporter.h"
#include "src/record/export/output_file.h"
#include "src/record/export/values.h"

// RFC 4180, but for "\n" alone at the end of a line. Numbers are the shortest text that reads back
// as the same float32, float64 or integer; "nan", "inf" and "-inf" as Python's float() takes them.
namespace tt::record {
namespace {

using protocol::RecordHeader;
using protocol::RecordView;

template <typename T>
std::string text_of_number(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return "nan";  // whatever its sign: 0 / 0 has one
  }
  std::array<char, 32> text;
  const auto result = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), result.ptr};
}

std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) {
    return text;
  }
  std::string quoted = "\"";
  for (const char c : text) {
    quoted += c == '"' ? "\"\"" : std::string(1, c);
  }
  return quoted + "\"";
}

// Nanoseconds as seconds, exact.
std::string seconds(std::uint64_t time_ns) {
  constexpr std::uint64_t kPerSecond = 1'000'000'000;
  const std::string fraction = std::to_string(kPerSecond + time_ns % kPerSecond).substr(1);
  return std::to_string(time_ns / kPerSecond) + "." + fraction;
}

// The columns that say where a value stands.
enum Column : std::size_t { kRow, kToken, kHead, kFeature, kColumns };
using Coordinates = std::array<std::optional<std::uint64_t>, kColumns>;

// The column of each dim of a record; all of a record whose dims are not known goes by its feature.
std::vector<Column> columns_of(const Series& series, const RunNames& names) {
  std::vector<std::string> dims = names.dims(series.point);
  if (dims.empty() && series.shape.size() == 3) {
    dims = {"batch", "sequence", "features"};
  }
  if (series.compressor == protocol::RecordCompressor::kStats ||
      dims.size() != series.shape.size()) {
    return {};
  }
  std::vector<Column> columns;
  for (const std::string& dim : dims) {
    columns.push_back(dim == "batch"      ? kRow
                      : dim == "sequence" ? kToken
                      : dim == "heads"    ? kHead
                                          : kFeature);
  }
  return columns;
}

Coordinates coordinates(std::uint64_t index, const RecordHeader& header,
                        const std::vector<Column>& columns) {
  Coordinates at;
  if (columns.empty()) {
    at[kFeature] = index;
    return at;
  }
  for (std::size_t dim = columns.size(); dim-- > 0;) {
    at[columns[dim]] = index % header.shape[dim];
    index /= header.shape[dim];
  }
  *at[kRow] += header.first_row;
  return at;
}

std::string line(const std::string& begin, const Coordinates& at, const std::string& value) {
  std::string text = begin;
  for (const auto& coordinate : at) {
    text += (coordinate ? std::to_string(*coordinate) : "") + ",";
  }
  return text + value + "\n";
}

// What all lines of a record begin with.
std::string begin_of(const RecordHeader& header, const RunNames& names) {
  std::string text;
  for (const std::string& part :
       {std::to_string(header.step), std::to_string(header.micro_batch), names.point(header.point),
        header.layer == 0 ? "" : std::to_string(header.layer), direction_name(header.direction),
        phase_name(header.phase), names.prompt_set(header.prompt_set), std::to_string(header.entry),
        std::to_string(header.data_rank), compressor_name(header.compressor)}) {
    text += cell(part) + ",";
  }
  return text;
}

// topk: the k largest numbers of each token, then their columns, which are the lines' features.
template <typename T>
void write_best(const RecordHeader& header, const std::vector<T>& values, const std::string& begin,
                OutputFile& file) {
  const std::size_t half = values.size() / 2;
  const std::vector<Column> columns = {kRow, kToken, kFeature};
  RecordHeader one_half = header;
  std::copy(header.shape.begin() + 1, header.shape.end(), one_half.shape.begin());
  for (std::size_t i = 0; i < half; ++i) {
    Coordinates at = coordinates(i, one_half, columns);
    at[kFeature] = static_cast<std::uint64_t>(values[half + i]);
    file.write(line(begin, at, text_of_number(values[i])));
  }
}

void write_record(const RecordView& record, const std::vector<Column>& columns,
                  const RunNames& names, OutputFile& file) {
  const RecordHeader& header = record.header;
  const std::string begin = begin_of(header, names);
  const bool is_best = header.compressor == protocol::RecordCompressor::kTopK && header.ndim == 4;
  std::visit(
      [&](const auto& values) {
        if (is_best) {
          write_best(header, values, begin, file);
          return;
        }
        for (std::size_t i = 0; i < values.size(); ++i) {
          file.write(line(begin, coordinates(i, header, columns), text_of_number(values[i])));
        }
      },
      decode(record));
}

}  // namespace

void write_csv_records(const Source& source, const std::string& path) {
  OutputFile file(path);
  file.write(
      "step,micro_batch,point,layer,direction,phase,prompt_set,entry,data_rank,compressor,"
      "row,token,head,feature,value\n");
  for (const Series& series : source.series) {
    const std::vector<Column> columns = columns_of(series, source.names);
    source.reader.records(series, [&](const RecordView& record) {
      write_record(record, columns, source.names, file);
    });
  }
  file.commit();
}

void write_csv_scalars(const Source& source, const std::string& path) {
  const ScalarTable& table = source.scalars;
  OutputFile file(path);
  std::string text = "step,time";
  for (const auto& [name, column] : table.columns) {
    text += "," + cell(name);
  }
  file.write(text + "\n");
  for (std::size_t row = 0; row < table.steps.size(); ++row) {
    text = std::to_string(table.steps[row]) + "," + seconds(table.time_ns[row]);
    for (const auto& [name, column] : table.columns) {
      text += "," + (column[row] ? text_of_number(*column[row]) : "");
    }
    file.write(text + "\n");
  }
  file.commit();
}

}  // namespace tt::record

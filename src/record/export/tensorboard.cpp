#include <algorithm>
#include <string>
#include <vector>

#include "src/record/export/event_file.h"
#include "src/record/export/exporter.h"
#include "src/record/export/plans.h"
#include "src/record/export/values.h"
#include "tensor_tracer/protocol/json_members.h"

namespace tt::record {
namespace {

using nlohmann::json;
using protocol::RecordCompressor;
using protocol::RecordView;

// docs/protocol.md, `stats`: these, then a histogram.
constexpr const char* kMoments[] = {"count", "mean",  "std", "min",     "max",
                                    "norm",  "zeros", "nan", "pos_inf", "neg_inf"};
constexpr std::size_t kMean = 1;
constexpr std::size_t kNorm = 5;

std::vector<double> doubles(const RecordView& record) {
  return std::visit(
      [](const auto& values) { return std::vector<double>(values.begin(), values.end()); },
      decode(record));
}

// Only a histogram with a range has even bins, and only the plan knows the range.
void add_histogram(const std::string& tag, const json& compressor, const std::vector<double>& stats,
                   Summary& summary) {
  const json range = compressor.is_object() ? compressor.value("range", json()) : json();
  if (!range.is_array() || range.size() != 2 || !range[0].is_number() || !range[1].is_number()) {
    return;
  }
  const std::span<const double> counts = std::span(stats).subspan(std::size(kMoments));
  const double finite = stats[0] - stats[7] - stats[8] - stats[9];
  summary.add_histogram(tag + "/histogram", range[0].get<double>(), range[1].get<double>(),
                        finite > 0 ? stats[kMean] * finite : 0, stats[kNorm] * stats[kNorm],
                        counts);
}

void add_stats(const std::string& tag, const json& compressor, const RecordView& record,
               Summary& summary) {
  const std::vector<double> stats = doubles(record);
  if (stats.size() < std::size(kMoments)) {
    return;
  }
  for (std::size_t i = 0; i < std::size(kMoments); ++i) {
    summary.add_scalar(tag + "/" + kMoments[i], static_cast<float>(stats[i]));
  }
  add_histogram(tag, compressor, stats, summary);
}

std::string vector_name(const json& compressor, std::size_t index) {
  const json names = compressor.is_object() ? compressor.value("vectors", json()) : json();
  const bool known = names.is_array() && index < names.size() && names[index].is_string();
  return known ? names[index].get<std::string>() : "vector_" + std::to_string(index);
}

// How many of a row's tokens are its own: a shorter prompt is filled up.
class OwnTokens {
 public:
  OwnTokens(const RecordView& record, const Plans& plans, const RunNames& names)
      : lengths_(names.prompt_lengths(record.header.prompt_set)),
        first_row_(record.header.first_row),
        first_token_(plans.first_token(record.header.plan, record.header.entry)) {}

  std::size_t of(std::size_t row, std::size_t tokens) const {
    row += first_row_;
    if (row >= lengths_.size()) {
      return tokens;
    }
    return std::min<std::size_t>(tokens, lengths_[row] - std::min(first_token_, lengths_[row]));
  }

 private:
  const std::vector<std::uint64_t> lengths_;
  const std::size_t first_row_;
  const std::uint64_t first_token_;
};

// The mean over a row's tokens, and of that over the rows: each counts the same however long it is.
void add_projection(const std::string& tag, const json& compressor, const RecordView& record,
                    const OwnTokens& own, Summary& summary) {
  const auto& [rows, tokens, vectors, unused] = record.header.shape;
  const std::vector<double> values = doubles(record);
  for (std::size_t vector = 0; record.header.ndim == 3 && vector < vectors; ++vector) {
    double means = 0;
    std::size_t counted = 0;
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t count = own.of(row, tokens);
      double sum = 0;
      for (std::size_t token = 0; token < count; ++token) {
        sum += values[(row * tokens + token) * vectors + vector];
      }
      means += count > 0 ? sum / static_cast<double>(count) : 0;
      counted += count > 0 ? 1 : 0;
    }
    if (counted > 0) {
      summary.add_scalar(tag + "/" + vector_name(compressor, vector),
                         static_cast<float>(means / static_cast<double>(counted)));
    }
  }
}

void write_scalars(const ScalarTable& table, EventFile& file) {
  for (std::size_t row = 0; row < table.steps.size(); ++row) {
    Summary summary;
    for (const auto& [name, column] : table.columns) {
      if (column[row]) {
        summary.add_scalar(name, static_cast<float>(*column[row]));
      }
    }
    file.add(table.steps[row], table.time_ns[row], summary);
  }
}

void write_series(const Source& source, const Plans& plans, std::size_t index, EventFile& file) {
  const Series& series = source.series[index];
  const std::string& tag = source.series_names[index].tag;
  source.reader.records(series, [&](const RecordView& record) {
    const json compressor = plans.compressor(record.header.plan, record.header.entry);
    Summary summary;
    if (series.compressor == RecordCompressor::kStats) {
      add_stats(tag, compressor, record, summary);
    } else {
      add_projection(tag, compressor, record, OwnTokens(record, plans, source.names), summary);
    }
    if (!summary.empty()) {
      file.add(record.header.step, record.header.time, summary);
    }
  });
}

}  // namespace

void write_tensorboard(const Source& source, const std::string& path) {
  const ScalarTable& table = source.scalars;
  EventFile file(path, table.time_ns.empty() ? 0 : table.time_ns.front());
  write_scalars(table, file);
  const Plans plans(source.recording, source.run);
  for (std::size_t i = 0; i < source.series.size(); ++i) {
    write_series(source, plans, i, file);
  }
  file.commit();
}

}  // namespace tt::record

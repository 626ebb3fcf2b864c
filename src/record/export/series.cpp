#include "src/record/export/series.h"

#include <SQLiteCpp/Database.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/record/export/failure.h"
#include "src/record/schema.h"

namespace tt::record {
namespace {

using protocol::RecordView;

std::string in_list(const char* column, const std::set<std::uint16_t>& numbers) {
  std::string list;
  for (const std::uint16_t number : numbers) {
    list += (list.empty() ? "" : ",") + std::to_string(number);
  }
  return std::string(column) + " IN (" + list + ")";
}

std::string series_sql(const Selection& selection) {
  std::string sql = R"sql(
    SELECT point, layer, direction, phase, prompt_set, compressor, dtype, entry, data_rank, shape,
      count(*), max(micro_batch), max(first_row), min(plan) < max(plan)
    FROM frames WHERE run = ? AND step BETWEEN ? AND ?)sql";
  if (selection.points) {
    sql += " AND " + in_list("point", *selection.points);
  }
  if (selection.layers) {
    sql += " AND (layer = 0 OR " + in_list("layer", *selection.layers) + ")";
  }
  return sql + " GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 ORDER BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10";
}

std::vector<std::uint64_t> parse_shape(const std::string& text) {
  const auto list = nlohmann::json::parse(text, nullptr, false);
  const bool good =
      list.is_array() && list.size() <= protocol::kRecordMaxDims &&
      std::ranges::all_of(list, [](const auto& extent) { return extent.is_number_unsigned(); });
  if (!good) {
    throw Failure({.code = "not_a_recording",
                   .message = "a frame's shape is \"" + text + "\", not a list of numbers"});
  }
  return list.get<std::vector<std::uint64_t>>();
}

template <typename T>
T at(SQLite::Statement& row, int column) {
  return static_cast<T>(row.getColumn(column).getInt64());
}

Series series_of(SQLite::Statement& row) {
  Series series{.point = at<std::uint16_t>(row, 0),
                .layer = at<std::uint16_t>(row, 1),
                .direction = at<protocol::RecordDirection>(row, 2),
                .phase = at<protocol::RecordPhase>(row, 3),
                .prompt_set = at<std::uint32_t>(row, 4),
                .compressor = at<protocol::RecordCompressor>(row, 5),
                .dtype = at<protocol::Dtype>(row, 6),
                .entry = at<std::uint32_t>(row, 7),
                .data_rank = at<std::uint16_t>(row, 8),
                .shape_text = row.getColumn(9).getString(),
                .shape = {},
                .records = at<std::uint64_t>(row, 10),
                .micro_batches = at<std::uint64_t>(row, 11) > 0,
                .first_rows = at<std::uint64_t>(row, 12) > 0,
                .plans = at<bool>(row, 13)};
  series.shape = parse_shape(series.shape_text);
  return series;
}

Failure damaged(const Place& place, const std::string& why) {
  return Failure({.code = "invalid_record",
                  .message = "frame " + std::to_string(place.id) + " of step " +
                             std::to_string(place.step) + " is damaged: " + why,
                  .remedy = "export the steps before it and those after it, each with --steps"});
}

bool fits(const Series& series, const protocol::RecordHeader& header) {
  return header.dtype == series.dtype && header.ndim == series.shape.size() &&
         std::equal(series.shape.begin(), series.shape.end(), header.shape.begin());
}

}  // namespace

SeriesReader::SeriesReader(Recording& recording, Selection selection)
    : database_(*recording.database_), selection_(std::move(selection)), snapshot_(database_) {}

void SeriesReader::bind_range(SQLite::Statement& select) const {
  select.bind(1, as_signed(selection_.run));
  select.bind(2, as_signed(selection_.first_step));
  select.bind(3, as_signed(selection_.last_step));
}

std::vector<Series> SeriesReader::series() {
  SQLite::Statement select(database_, series_sql(selection_));
  bind_range(select);
  std::vector<Series> out;
  while (select.executeStep()) {
    out.push_back(series_of(select));
  }
  return out;
}

void SeriesReader::places(const Series& series, const std::function<void(const Place&)>& take) {
  SQLite::Statement select(database_, R"sql(
    SELECT id, step, micro_batch, first_row, plan FROM frames
    WHERE run = ?1 AND step BETWEEN ?2 AND ?3 AND point = ?4 AND layer = ?5 AND entry = ?6
      AND direction = ?7 AND phase = ?8 AND prompt_set = ?9 AND compressor = ?10 AND dtype = ?11
      AND data_rank = ?12 AND shape = ?13
    ORDER BY step, id)sql");
  bind_range(select);
  select.bind(4, series.point);
  select.bind(5, series.layer);
  select.bind(6, series.entry);
  select.bind(7, static_cast<int>(series.direction));
  select.bind(8, static_cast<int>(series.phase));
  select.bind(9, series.prompt_set);
  select.bind(10, static_cast<int>(series.compressor));
  select.bind(11, static_cast<int>(series.dtype));
  select.bind(12, series.data_rank);
  select.bind(13, series.shape_text);
  while (select.executeStep()) {
    take({.id = at<std::int64_t>(select, 0),
          .step = at<std::int64_t>(select, 1),
          .micro_batch = at<std::int64_t>(select, 2),
          .first_row = at<std::int64_t>(select, 3),
          .plan = at<std::int64_t>(select, 4)});
  }
}

void SeriesReader::records(const Series& series,
                           const std::function<void(const RecordView&)>& take) {
  SQLite::Statement blob(database_, "SELECT record FROM frames WHERE id = ?");
  places(series, [&](const Place& place) {
    blob.reset();
    blob.bind(1, place.id);
    blob.executeStep();
    const SQLite::Column record = blob.getColumn(0);
    const auto view = protocol::read_record(
        {static_cast<const char*>(record.getBlob()), static_cast<std::size_t>(record.getBytes())});
    if (!view) {
      throw damaged(place, view.error().message);
    }
    if (!fits(series, view.value().header)) {
      throw damaged(place, "its columns say another dtype or shape than its record");
    }
    take(view.value());
  });
}

}  // namespace tt::record

#include "tensor_tracer/record/export.h"

#include <SQLiteCpp/Exception.h>
#include <sqlite3.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "src/record/export/exporter.h"
#include "src/record/export/failure.h"
#include "tensor_tracer/base/nearest.h"

namespace tt::record {
namespace {

namespace fs = std::filesystem;

Failure wrong(std::string message, std::string remedy) {
  return Failure(
      {.code = "invalid_argument", .message = std::move(message), .remedy = std::move(remedy)});
}

std::string comma_list(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : ", ") + word;
  }
  return text;
}

RunInfo choose_run(Recording& recording, const std::string& id) {
  const std::vector<RunInfo> runs = recording.runs();
  std::vector<std::string> ids;
  for (const RunInfo& run : runs) {
    if (run.id == id || (id.empty() && runs.size() == 1)) {
      return run;
    }
    ids.push_back(run.id);
  }
  if (runs.empty()) {
    throw wrong("no run has been recorded", "");
  }
  if (id.empty()) {
    throw wrong("there are " + std::to_string(runs.size()) + " runs in it",
                "choose one with --run: " + comma_list(ids));
  }
  throw wrong("there is no run " + id + " in it", "it has " + comma_list(ids));
}

std::uint16_t flag_of(const RunNames& names, const std::string& point) {
  const auto known = names.points().find(point);
  if (known != names.points().end()) {
    return known->second;
  }
  std::vector<std::string> words;
  for (const auto& [name, flag] : names.points()) {
    words.push_back(name);
  }
  const std::string nearest = base::nearest_word(point, words);
  throw wrong("the run has no point " + point,
              nearest.empty() ? "it has " + comma_list(words) : "did you mean " + nearest + "?");
}

Selection selection_of(const ExportOptions& options, const RunInfo& run, const RunNames& names) {
  Selection selection{.run = run.run,
                      .first_step = options.first_step,
                      .last_step = options.last_step,
                      .points = {},
                      .layers = options.layers};
  for (const std::string& point : options.points) {
    if (!selection.points) {
      selection.points.emplace();
    }
    selection.points->insert(flag_of(names, point));
  }
  return selection;
}

bool is_summary(const Series& series) {
  return series.compressor == protocol::RecordCompressor::kStats ||
         series.compressor == protocol::RecordCompressor::kProjection;
}

// What the format has a place for.
std::vector<Series> choose_series(SeriesReader& reader, const ExportOptions& options) {
  if (options.format == ExportFormat::kCsv && options.points.empty()) {
    return {};
  }
  std::vector<Series> series = reader.series();
  if (options.format == ExportFormat::kTensorBoard) {
    std::erase_if(series, [](const Series& one) { return !is_summary(one); });
  }
  return series;
}

// A point that was asked for and has nothing is a mistake of who asks, not an empty file.
void require_records(const ExportOptions& options, const RunNames& names,
                     const std::vector<Series>& series) {
  const bool board = options.format == ExportFormat::kTensorBoard;
  for (const std::string& point : options.points) {
    const std::uint16_t flag = flag_of(names, point);
    if (std::ranges::none_of(series, [&](const Series& one) { return one.point == flag; })) {
      throw wrong(std::string("there are no ") + (board ? "stats or projection " : "") +
                      "records of " + point + " in these steps and layers",
                  board ? "export others with --to npz" : "widen --steps and --layers");
    }
  }
}

bool has_scalars(const ExportOptions& options) {
  return options.format != ExportFormat::kCsv || options.points.empty();
}

// TensorBoard looks through a folder for files with "tfevents" in their names.
std::string output_path(const ExportOptions& options, const RunInfo& run) {
  if (options.format != ExportFormat::kTensorBoard) {
    return options.output;
  }
  return (fs::path(options.output) / ("events.out.tfevents.0." + run.id)).string();
}

void prepare_output(const std::string& recording, const std::string& path,
                    const ExportOptions& options) {
  std::error_code ignored;
  if (fs::equivalent(recording, path, ignored)) {
    throw wrong("the output is the recording itself", "give another --output");
  }
  if (fs::is_directory(path, ignored)) {
    throw wrong(path + " is a folder", "give --output a file's name");
  }
  if (!options.force && fs::exists(path, ignored)) {
    throw wrong(path + " is there already", "give another --output, or --force to replace it");
  }
  if (options.format == ExportFormat::kTensorBoard) {
    fs::create_directories(options.output, ignored);
  }
}

void write(const Source& source, const std::string& path, const ExportOptions& options) {
  switch (options.format) {
    case ExportFormat::kNpz:
      return write_npz(source, path, options.raw);
    case ExportFormat::kSafetensors:
      return write_safetensors(source, path, options.raw);
    case ExportFormat::kCsv:
      return options.points.empty() ? write_csv_scalars(source, path)
                                    : write_csv_records(source, path);
    case ExportFormat::kTensorBoard:
      return write_tensorboard(source, path);
  }
}

ExportReport export_run(Recording& recording, const std::string& file,
                        const ExportOptions& options) {
  if (options.raw && options.format != ExportFormat::kNpz &&
      options.format != ExportFormat::kSafetensors) {
    throw wrong("--raw is of npz and safetensors only", "leave it out");
  }
  const RunInfo run = choose_run(recording, options.run);
  const RunNames names(run.facts);
  const Selection selection = selection_of(options, run, names);
  SeriesReader reader(recording, selection);
  const std::vector<Series> series = choose_series(reader, options);
  require_records(options, names, series);
  const ScalarTable scalars =
      has_scalars(options) ? read_scalars(recording, selection) : ScalarTable{};
  if (series.empty() && scalars.steps.empty()) {
    throw wrong("nothing was recorded in these steps", "widen --steps");
  }
  const std::vector<SeriesName> series_names = name_series(series, names);
  ExportReport report{.path = output_path(options, run), .steps = scalars.steps.size()};
  prepare_output(file, report.path, options);
  write({.run = run,
         .recording = recording,
         .reader = reader,
         .names = names,
         .series = series,
         .series_names = series_names,
         .scalars = scalars},
        report.path, options);
  for (const Series& one : series) {
    report.records += one.records;
  }
  return report;
}

// A damaged file, or a disk: SQLite sorts in temporary files.
base::Error cannot_read(const std::string& recording, const SQLite::Exception& error) {
  const bool damaged = error.getErrorCode() == SQLITE_CORRUPT;
  return {.code = damaged ? "not_a_recording" : "io_error",
          .message = std::string("this recording cannot be read: ") + error.what(),
          .where = recording,
          .remedy = damaged
                        ? "check it with `sqlite3 FILE 'PRAGMA integrity_check'`"
                        : "look for a full disk: temporary files are in the folder SQLITE_TMPDIR, "
                          "or else /var/tmp"};
}

}  // namespace

base::Result<ExportReport> export_recording(const std::string& recording,
                                            const ExportOptions& options) {
  auto opened = Recording::open(recording);
  if (!opened) {
    return opened.error();
  }
  try {
    return export_run(opened.value(), recording, options);
  } catch (const Failure& failure) {
    base::Error error = failure.error();
    if (error.where.empty()) {
      error.where = recording;
    }
    return error;
  } catch (const SQLite::Exception& error) {
    return cannot_read(recording, error);
  }
}

}  // namespace tt::record

#pragma once

#include <string>
#include <vector>

#include "src/record/export/run_names.h"
#include "src/record/export/scalar_table.h"
#include "src/record/export/series.h"

/// What export_recording() asks of a format. All functions throw Failure.
namespace tt::record {

/// What is exported. Owner: export_recording().
struct Source {
  const RunInfo& run;
  Recording& recording;
  SeriesReader& reader;
  const RunNames& names;
  const std::vector<Series>& series;
  const std::vector<SeriesName>& series_names;  // as long as `series`
  const ScalarTable& scalars;
};

void write_npz(const Source& source, const std::string& path, bool raw);
void write_safetensors(const Source& source, const std::string& path, bool raw);
/// The records one value a line.
void write_csv_records(const Source& source, const std::string& path);
/// The scalars one step a line.
void write_csv_scalars(const Source& source, const std::string& path);
/// Scalars, and what statistics and projections say.
void write_tensorboard(const Source& source, const std::string& path);

}  // namespace tt::record

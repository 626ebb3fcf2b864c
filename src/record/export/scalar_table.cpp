#include "src/record/export/scalar_table.h"

#include <algorithm>

namespace tt::record {
namespace {

constexpr std::size_t kStepsAtOnce = 4096;

void add_row(ScalarTable& table, const StepRow& row) {
  for (const auto& [name, value] : row.params.items()) {
    if (name != "step") {
      auto& column = table.columns[name];
      column.resize(table.steps.size());
      column.emplace_back(value.get<double>());
    }
  }
  table.steps.push_back(row.step);
  table.time_ns.push_back(row.time_ns);
}

}  // namespace

ScalarTable read_scalars(Recording& recording, const Selection& selection) {
  ScalarTable table;
  std::uint64_t last = selection.last_step;
  while (true) {  // the recording gives the last steps of a range first
    const auto rows = recording.steps(selection.run, selection.first_step, last, kStepsAtOnce);
    for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
      add_row(table, *row);
    }
    if (rows.size() < kStepsAtOnce || rows.front().step <= selection.first_step) {
      break;
    }
    last = rows.front().step - 1;
  }
  std::ranges::reverse(table.steps);
  std::ranges::reverse(table.time_ns);
  for (auto& [name, column] : table.columns) {
    column.resize(table.steps.size());
    std::ranges::reverse(column);
  }
  return table;
}

}  // namespace tt::record

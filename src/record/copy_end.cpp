#include "tensor_tracer/record/copy_end.h"

#include <SQLiteCpp/Exception.h>

#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "tensor_tracer/protocol/record.h"
#include "tensor_tracer/record/recorder.h"
#include "tensor_tracer/record/recording.h"

namespace tt::record {
namespace {

constexpr std::size_t kMaxSteps = 1000, kMaxEvents = 100'000;

std::uint64_t bytes_of_step(Recording& recording, std::uint64_t run, std::uint64_t step) {
  std::uint64_t bytes = 0;
  recording.frames({.run = run, .first_step = step, .last_step = step}, [&](const Frame& frame) {
    bytes += frame.record.size();
    return true;
  });
  return bytes;
}

std::uint64_t first_step_of_end(Recording& recording, std::uint64_t run, std::uint64_t max_bytes) {
  const auto steps = recording.step_times(run);
  std::uint64_t first = 0, bytes = 0;
  std::size_t count = 0;
  for (auto step = steps.rbegin(); step != steps.rend() && count < kMaxSteps; ++step, ++count) {
    bytes += bytes_of_step(recording, run, step->first);
    if (bytes > max_bytes && count > 0) break;
    first = step->first;
  }
  return first;
}

void copy_events(Recording& recording, std::uint64_t run, std::uint64_t first, Recorder& copy) {
  for (auto& [id, event] : recording.events({.limit = kMaxEvents}))
    if (event.run == run && event.step >= first) copy.add_event(std::move(event));
}

void copy_steps(Recording& recording, const RunInfo& run, std::uint64_t max_bytes, Recorder& copy) {
  copy.set_run(run.facts);
  const std::uint64_t first = first_step_of_end(recording, run.run, max_bytes);
  recording.frames({.run = run.run, .first_step = first}, [&](const Frame& frame) {
    auto bytes = std::make_shared<const std::string>(frame.record);
    const auto view = protocol::read_record(*bytes);
    if (view) copy.add_record(view.value().header, std::move(bytes));
    return true;
  });
  for (const StepRow& row : recording.steps(run.run, first, INT64_MAX, kMaxSteps))
    copy.add_step(run.run, row.params, row.time_ns);
  copy_events(recording, run.run, first, copy);
}

}  // namespace

base::Status copy_end(const std::string& from, const std::string& to, std::uint64_t max_bytes) try {
  auto recording = Recording::open(from);
  if (!recording) return recording.error();
  const std::vector<RunInfo> runs = recording.value().runs();
  if (runs.empty()) return {};
  auto copy = Recorder::open({.path = to});
  if (!copy) return copy.error();
  copy_steps(recording.value(), runs.back(), max_bytes, *copy.value());
  copy.value()->finish();
  if (!copy.value()->counters().stopped) return {};
  return base::Error{.code = "storage", .message = "cannot be written", .where = to};
} catch (const SQLite::Exception& error) {
  return base::Error{.code = "io_error", .message = error.what(), .where = from};
}

}  // namespace tt::record

#include "src/hub/alarms/spike_recorder.h"

#include <algorithm>

#include "tensor_tracer/base/thread.h"
#include "tensor_tracer/protocol/json_members.h"
#include "tensor_tracer/record/recorder.h"

namespace tt::hub {
namespace {

using nlohmann::json;
using protocol::member;
using protocol::natural;
using protocol::text_of;

std::uint64_t step_of(const json& params) { return natural(params, "step").value_or(0); }

base::Status not_written(const std::string& path) {
  return base::Error{
      .code = "storage", .message = "the disk took only a part of it", .where = path};
}

}  // namespace

SpikeRecorder::~SpikeRecorder() {
  if (const auto written = finish()) on_written_(*written);
  if (writer_.joinable()) writer_.join();
}

void SpikeRecorder::follow(const json& facts) {
  const bool is_same = text_of(facts, "id") == text_of(facts_, "id");
  const bool is_same_plan =
      natural(member(facts, "plan"), "number") == natural(member(facts_, "plan"), "number");
  facts_ = facts;
  if (!is_same || !is_same_plan) forget();
}

void SpikeRecorder::forget() {
  steps_.clear();
  next_ = {};
  bytes_ = 0;
}

void SpikeRecorder::add_record(const protocol::RecordHeader& header,
                               const base::SharedBytes& bytes) {
  if (due_ && header.step <= step_of(due_->steps.back().params)) {
    if (Step* const home = find_step(due_->steps, header.step))
      home->records.push_back({header, bytes});
    return;
  }
  Step* const ended = find_step(steps_, header.step);
  Step& home = ended != nullptr ? *ended : next_;
  home.records.push_back({header, bytes});
  home.bytes += bytes->size();
  bytes_ += bytes->size();
  make_room();
}

// The end of a step may overtake its records.
SpikeRecorder::Step* SpikeRecorder::find_step(std::deque<Step>& steps, std::uint64_t step) {
  const auto found =
      std::ranges::find(steps, step, [](const Step& one) { return step_of(one.params); });
  return found == steps.end() ? nullptr : &*found;
}

void SpikeRecorder::add_step(const json& params) {
  next_.params = params;
  next_.time_ns = wall_time_ns();
  steps_.push_back(std::exchange(next_, {}));
  make_room();
}

void SpikeRecorder::make_room() {
  while (!steps_.empty() && (steps_.size() > max_steps_ || bytes_ > max_bytes_)) {
    bytes_ -= steps_.front().bytes;
    steps_.pop_front();
  }
  if (bytes_ > max_bytes_) forget();  // one step alone has more
}

void SpikeRecorder::write(std::uint64_t step, Clock::time_point now) {
  if (steps_.empty() || due_ || writes_ || files_ >= kMaxFiles) return;
  ++files_;
  due_ = {.facts = facts_,
          .path = folder_ + "/spike-" + std::to_string(step) + ".ttrec",
          .steps = std::move(steps_),
          .time = now + kLateness};
  forget();
}

void SpikeRecorder::tick(Clock::time_point now) {
  if (due_ && now >= due_->time) write_due();
}

void SpikeRecorder::write_due() {
  if (writer_.joinable()) writer_.join();
  writes_ = true;
  writer_ = std::thread([this, due = std::move(*due_)] {
    base::set_thread_name("tt-spike");
    on_written_(write_file(due));
    writes_ = false;
  });
  due_.reset();
}

std::optional<SpikeRecorder::Written> SpikeRecorder::finish() {
  const std::optional<Due> due = std::exchange(due_, std::nullopt);
  return due ? std::optional(write_file(*due)) : std::nullopt;
}

SpikeRecorder::Written SpikeRecorder::write_file(const Due& due) {
  Written written{.first_step = step_of(due.steps.front().params),
                  .last_step = step_of(due.steps.back().params),
                  .records = 0,
                  .path = due.path,
                  .status = {}};
  const std::uint64_t run = record::run_number(text_of(due.facts, "id"));
  auto recorder = record::Recorder::open({.path = due.path, .queue_bytes = 2 * kMaxBytes});
  if (!recorder.ok()) {
    written.status = recorder.error();
    return written;
  }
  recorder.value()->set_run(due.facts);
  for (const Step& one : due.steps) {
    for (const Record& record : one.records)
      recorder.value()->add_record(record.header, record.bytes);
    recorder.value()->add_step(run, one.params, one.time_ns);
    written.records += one.records.size();
  }
  recorder.value()->finish();
  if (recorder.value()->counters().stopped) written.status = not_written(written.path);
  return written;
}

}  // namespace tt::hub

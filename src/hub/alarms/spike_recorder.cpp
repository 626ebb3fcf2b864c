#include "src/hub/alarms/spike_recorder.h"

#include <filesystem>

#include "src/hub/fanout/clock.h"
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
  next_.records.push_back({header, bytes});
  next_.bytes += bytes->size();
  bytes_ += bytes->size();
  make_room();
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

void SpikeRecorder::write(std::uint64_t step) {
  if (steps_.empty() || writes_ || files_ >= kMaxFiles) return;
  if (writer_.joinable()) writer_.join();
  writes_ = true;
  ++files_;
  Written written{.first_step = step_of(steps_.front().params),
                  .last_step = step_of(steps_.back().params),
                  .records = 0,
                  .path = folder_ + "/spike-" + std::to_string(step) + ".ttrec",
                  .status = {}};
  writer_ = std::thread([this, written, facts = facts_, steps = std::move(steps_)]() mutable {
    base::set_thread_name("tt-spike");
    const std::uint64_t run = record::run_number(text_of(facts, "id"));
    auto recorder = record::Recorder::open({.path = written.path, .queue_bytes = 2 * kMaxBytes});
    written.status = recorder.ok() ? base::Status() : recorder.error();
    if (recorder.ok()) {
      recorder.value()->set_run(facts);
      for (const Step& one : steps) {
        for (const Record& record : one.records) {
          recorder.value()->add_record(record.header, record.bytes);
        }
        recorder.value()->add_step(run, one.params, one.time_ns);
        written.records += one.records.size();
      }
      recorder.value()->finish();
      if (recorder.value()->counters().stopped) written.status = not_written(written.path);
    }
    on_written_(written);
    writes_ = false;
  });
  forget();
}

}  // namespace tt::hub

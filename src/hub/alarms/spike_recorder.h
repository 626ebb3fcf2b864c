#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/hub/fanout/clock.h"
#include "tensor_tracer/base/result.h"
#include "tensor_tracer/base/shared_bytes.h"
#include "tensor_tracer/protocol/record.h"

namespace tt::hub {

/// Keeps the last steps of the run in memory, with all their records, and writes them as a
/// separate recording when an alarm fires: docs/alarms.md, "Spike recorder". Thread: the hub's
/// I/O thread only; it writes on a separate thread.
class SpikeRecorder {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{256} << 20U;  // of the records in memory
  static constexpr int kMaxFiles = 8;                                // of a run
  /// Records may arrive this much later than the end of their step.
  static constexpr std::chrono::milliseconds kLateness{500};

  /// A recording that was written, or the reason why it was not.
  struct Written {
    std::uint64_t first_step = 0;
    std::uint64_t last_step = 0;
    std::uint64_t records = 0;
    std::string path;
    base::Status status;
  };
  /// Called on the writing thread, for tick().
  using OnWritten = std::function<void(const Written&)>;

  /// Keeps `steps` steps. The recordings are `<folder>/spike-<step>.ttrec`.
  SpikeRecorder(std::uint64_t steps, std::string folder, OnWritten on_written,
                std::size_t max_bytes = kMaxBytes)
      : max_steps_(steps),
        max_bytes_(max_bytes),
        folder_(std::move(folder)),
        on_written_(std::move(on_written)) {}
  /// Writes the kept steps that are due, and waits until they are written.
  ~SpikeRecorder();
  SpikeRecorder(const SpikeRecorder&) = delete;
  SpikeRecorder& operator=(const SpikeRecorder&) = delete;

  /// The records before it belong to another plan, or to another run.
  void follow(const nlohmann::json& facts);
  void add_record(const protocol::RecordHeader& header, const base::SharedBytes& bytes);
  /// Params of the step that has ended.
  void add_step(const nlohmann::json& params);
  /// The steps that it keeps become due: tick() writes them kLateness later, with the records that
  /// arrive until then. Does nothing while other steps are due or being written, and after
  /// kMaxFiles recordings.
  void write(std::uint64_t step, Clock::time_point now);
  /// Writes the steps that are due, on the writing thread.
  void tick(Clock::time_point now);
  /// At the end of the run: writes the steps that are due on the calling thread.
  std::optional<Written> finish();

 private:
  struct Record {
    protocol::RecordHeader header;
    base::SharedBytes bytes;
  };
  struct Step {
    nlohmann::json params;
    std::uint64_t time_ns = 0;
    std::vector<Record> records = {};
    std::size_t bytes = 0;
  };
  struct Due {
    nlohmann::json facts;
    std::string path;
    std::deque<Step> steps;
    Clock::time_point time;
  };

  void forget();
  void make_room();
  static Step* find_step(std::deque<Step>& steps, std::uint64_t step);  // null: not there
  void write_due();
  static Written write_file(const Due& due);

  const std::uint64_t max_steps_;
  const std::size_t max_bytes_;
  const std::string folder_;
  const OnWritten on_written_;
  nlohmann::json facts_;
  std::deque<Step> steps_;
  Step next_;              // the records of the step that has not ended
  std::size_t bytes_ = 0;  // without those of due_
  std::optional<Due> due_;
  int files_ = 0;
  std::atomic<bool> writes_ = false;
  std::thread writer_;
};

}  // namespace tt::hub

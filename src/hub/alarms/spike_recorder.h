#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

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

  /// A recording that was written, or the reason why it was not.
  struct Written {
    std::uint64_t first_step = 0;
    std::uint64_t last_step = 0;
    std::uint64_t records = 0;
    std::string path;
    base::Status status;
  };
  /// Called on the writing thread.
  using OnWritten = std::function<void(const Written&)>;

  /// Keeps `steps` steps. The recordings are `<folder>/spike-<step>.ttrec`.
  SpikeRecorder(std::uint64_t steps, std::string folder, OnWritten on_written,
                std::size_t max_bytes = kMaxBytes)
      : max_steps_(steps),
        max_bytes_(max_bytes),
        folder_(std::move(folder)),
        on_written_(std::move(on_written)) {}
  /// Waits until the recording under way is written.
  ~SpikeRecorder();
  SpikeRecorder(const SpikeRecorder&) = delete;
  SpikeRecorder& operator=(const SpikeRecorder&) = delete;

  /// The records before it belong to another plan, or to another run.
  void follow(const nlohmann::json& facts);
  void add_record(const protocol::RecordHeader& header, const base::SharedBytes& bytes);
  /// Params of the step that has ended.
  void add_step(const nlohmann::json& params);
  /// Writes the steps that it keeps, and forgets them. Does nothing while it still writes, and
  /// after kMaxFiles recordings.
  void write(std::uint64_t step);

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

  void forget();
  void make_room();

  const std::uint64_t max_steps_;
  const std::size_t max_bytes_;
  const std::string folder_;
  const OnWritten on_written_;
  nlohmann::json facts_;
  std::deque<Step> steps_;
  Step next_;  // the records of the step that has not ended
  std::size_t bytes_ = 0;
  int files_ = 0;
  std::atomic<bool> writes_ = false;
  std::thread writer_;
};

}  // namespace tt::hub

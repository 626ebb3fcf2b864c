#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "src/hub/dialect/dialect.h"
#include "src/hub/dialect/spare_time.h"
#include "tensor_tracer/base/shared_bytes.h"

namespace tt::hub::dialect {

struct UpdateEncoderLimits {
  /// Records that wait for the thread; the oldest goes where more are asked for.
  std::size_t waiting = 64;
  /// Bytes of the newest texts and their records, which are kept for the next viewer that asks.
  std::size_t kept_bytes = std::size_t{32} << 20U;
};

/// Makes the updates of records on a thread that takes spare CPU time only, each once for all who
/// ask for it. The two threads share no lock: one that is preempted for long while it holds a lock
/// would hold up the other.
///
///     idle -> work (the thread's turn) -> done -> idle
///
/// Thread: one at a time, but for `on_made`. The thread starts with the first record.
class UpdateEncoder {
 public:
  /// The encoder's thread calls `on_made` when there is something to collect.
  explicit UpdateEncoder(std::function<void()> on_made, const UpdateEncoderLimits& limits = {},
                         SpareTime spare = {});
  /// Ends the thread, in what it takes to make one update. `on_made` is not called any more then.
  ~UpdateEncoder();
  UpdateEncoder(const UpdateEncoder&) = delete;
  UpdateEncoder& operator=(const UpdateEncoder&) = delete;

  /// The update of a record if it is made; else it waits for its turn, and may have to be asked
  /// for again. `record` is told from others by where it lies.
  /// REQUIRES: ShownRecords::shows(dialect, *record), under any plan.
  std::optional<base::SharedBytes> update_of(Dialect dialect, const base::SharedBytes& record);
  /// Takes over what the thread has made, and lets it go on.
  void collect();

 private:
  struct Frame {
    Dialect dialect = Dialect::kTensorTracer;
    base::SharedBytes record;  // as long as it is kept no other lies there
  };
  using Key = std::pair<const char*, Dialect>;
  struct Update {
    base::SharedBytes record, text;
    std::size_t bytes() const { return record->size() + text->size(); }
  };
  enum class Turn : std::int32_t { kIdle, kWork, kDone, kEnd };

  static Key key_of(const Frame& frame) { return {frame.record->data(), frame.dialect}; }
  bool is_asked_for(const Key& key) const;
  void start_next();
  void keep(const Frame& frame, base::SharedBytes text);
  void work();

  const std::function<void()> on_made_;
  const UpdateEncoderLimits limits_;
  std::deque<Frame> waiting_;
  std::optional<Frame> current_;  // which the thread reads from kWork to kDone
  std::map<Key, Update> updates_;
  std::deque<Key> order_;  // as they were made
  std::size_t kept_bytes_ = 0;

  std::string text_;  // the thread's from kWork to kDone
  SpareTime spare_;   // the thread's
  std::atomic<Turn> turn_ = Turn::kIdle;
  std::thread thread_;
};

}  // namespace tt::hub::dialect

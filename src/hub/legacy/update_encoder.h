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

#include "src/hub/legacy/dialect.h"
#include "src/hub/legacy/spare_time.h"
#include "tensor_tracer/base/shared_bytes.h"

namespace tt::hub::dialect {

struct UpdateEncoderLimits {
  /// The number of records that may wait for the thread; above it the oldest is removed.
  std::size_t waiting = 64;
  /// The newest texts and their records are kept up to these bytes, for the next viewer that asks.
  std::size_t kept_bytes = std::size_t{32} << 20U;
};

/// Makes the updates of records on a thread that uses only spare CPU time. Each update is made once
/// for all viewers that ask for it. The two threads share no lock: if one thread were preempted for
/// long while it held a lock, it would delay the other thread.
///
///     idle -> work (the thread's turn) -> done -> idle
///
/// Thread: one at a time, except `on_made`. The thread starts with the first record.
class UpdateEncoder {
 public:
  /// The encoder's thread calls `on_made` when an update is ready to be collected.
  explicit UpdateEncoder(std::function<void()> on_made, const UpdateEncoderLimits& limits = {},
                         SpareTime spare = {});
  /// Ends the thread, within the time of one update. After this `on_made` is not called.
  ~UpdateEncoder();
  UpdateEncoder(const UpdateEncoder&) = delete;
  UpdateEncoder& operator=(const UpdateEncoder&) = delete;

  /// The update of a record if it is made. If not, the record waits for its turn, and the caller
  /// must ask again. Records are distinguished by their address.
  /// REQUIRES: ShownRecords::shows(dialect, *record), under any plan.
  std::optional<base::SharedBytes> update_of(Dialect dialect, const base::SharedBytes& record);
  /// Takes the update that the thread has made, and gives the thread the next record.
  void collect();

 private:
  struct Job {
    Dialect dialect = Dialect::kTensorTracer;
    base::SharedBytes record;  // while it is kept, no other record has this address
  };
  using Key = std::pair<const char*, Dialect>;
  struct Update {
    base::SharedBytes record, text;
    std::size_t bytes() const { return record->size() + text->size(); }
  };
  enum class Turn : std::int32_t { kIdle, kWork, kDone, kEnd };

  static Key key_of(const Job& job) { return {job.record->data(), job.dialect}; }
  bool is_asked_for(const Key& key) const;
  void start_next();
  void keep(const Job& job, base::SharedBytes text);
  void work();

  const std::function<void()> on_made_;
  const UpdateEncoderLimits limits_;
  std::deque<Job> waiting_;
  std::optional<Job> current_;  // the thread reads it from kWork to kDone
  std::map<Key, Update> updates_;
  std::deque<Key> order_;  // in the order in which they were made
  std::size_t kept_bytes_ = 0;

  std::string text_;  // belongs to the thread from kWork to kDone
  SpareTime spare_;   // belongs to the thread
  std::atomic<Turn> turn_ = Turn::kIdle;
  std::thread thread_;
};

}  // namespace tt::hub::dialect

#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "src/record/writer.h"
#include "tensor_tracer/record/query_thread.h"

namespace tt::record {

/// The items that wait to be written, limited in bytes, and the counts of items written and lost.
/// Thread: any; guarded by mutex_.
class ItemQueue {
 public:
  /// The content of one transaction.
  struct Work {
    std::vector<Item> items;
    std::uint64_t records = 0;
    std::uint64_t bytes = 0;
    std::vector<QueryThread::Query> queries;
  };

  /// `transaction_bytes`: of the records that are written together.
  ItemQueue(std::size_t max_bytes, std::size_t transaction_bytes)
      : max_bytes_(max_bytes), transaction_bytes_(transaction_bytes) {}

  void push(FrameItem frame);
  void push(Event event);
  template <typename Other>
  void push(Other item) {
    push_other(std::move(item));
  }
  /// Adds a query. After refuse_queries() the query is released immediately.
  void push_query(QueryThread::Query query);

  /// Waits until `interval` is over, until there is enough for a transaction, or until there is a
  /// query. Nothing once the queue has ended and is empty.
  std::optional<Work> wait(std::chrono::milliseconds interval);
  /// `left_out`: records for which the file had no room.
  void written(const Work& work, std::uint64_t left_out, std::uint64_t file_bytes);
  void lost(const Work& work);
  /// From now on everything is dropped. False if the queue was already stopped.
  bool stop();
  void end();
  bool is_ending() const;
  /// Call this when no reader is left: releases the waiting queries.
  void refuse_queries();
  RecorderCounters counters() const;

 private:
  void push_other(Item item);
  void push_other_locked(Item item);
  Work take_locked();

  const std::size_t max_bytes_;
  const std::size_t transaction_bytes_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  // Guarded by mutex_.
  std::deque<FrameItem> frames_;
  std::vector<Item> others_;
  std::vector<QueryThread::Query> queries_;
  std::size_t bytes_ = 0;        // of frames_
  std::size_t event_bytes_ = 0;  // of the events in others_ that may be dropped
  std::size_t kept_ = 0;         // number of the remaining items in others_
  RecorderCounters counters_;
  bool ending_ = false;
  bool refuses_queries_ = false;
};

}  // namespace tt::record

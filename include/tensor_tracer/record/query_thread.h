#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "tensor_tracer/record/recording.h"

namespace tt::record {

/// Runs queries one after another, on a separate thread with a separate read-only connection. If
/// the recording cannot be opened, waiting queries are destroyed without having run.
/// Thread: post() by any; the rest by the owner.
class QueryThread {
 public:
  using Query = std::function<void(Recording&)>;

  explicit QueryThread(std::string path);
  /// Drops the queries that have not started.
  ~QueryThread();
  QueryThread(const QueryThread&) = delete;
  QueryThread& operator=(const QueryThread&) = delete;

  void post(Query query);

 private:
  void run();
  std::optional<Query> take();
  void let_go_of_waiting();

  const std::string path_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Query> queries_;  // guarded by mutex_
  bool ending_ = false;        // guarded by mutex_
  std::thread thread_;
};

/// Runs the query and logs its exceptions.
void run_query(const QueryThread::Query& query, Recording& recording);

}  // namespace tt::record

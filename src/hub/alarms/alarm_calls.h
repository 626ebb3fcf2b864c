#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/hub/alarms.h"

namespace tt::hub {

/// Calls the webhook and the command of an alarm, on a separate thread, one call after the other.
/// Thread: any.
class AlarmCalls {
 public:
  static constexpr std::size_t kMaxWaiting = 64;     // messages; more are dropped and counted
  static constexpr std::chrono::seconds kLimit{10};  // of one call

  /// `command`: the path of a program and its arguments; empty: none. Its output is appended to
  /// the file `log`.
  AlarmCalls(std::optional<WebhookUrl> webhook, std::vector<std::string> command, std::string log);
  /// Calls finish() and waits for the thread.
  ~AlarmCalls();
  AlarmCalls(const AlarmCalls&) = delete;
  AlarmCalls& operator=(const AlarmCalls&) = delete;

  /// Sends `message` to both. Never waits.
  void push(std::string message);
  /// The calls that still wait get a second in all. Does not wait for them.
  void finish();
  std::uint64_t failed() const { return failed_; }

 private:
  using Clock = std::chrono::steady_clock;

  void run();
  void make(const std::string& message);
  void report(const char* what, const base::Status& status);

  const std::optional<WebhookUrl> webhook_;
  const std::vector<std::string> command_;
  const std::string log_;
  std::atomic<std::uint64_t> failed_ = 0;

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::string> waiting_;       // guarded by mutex_
  std::optional<Clock::time_point> end_;  // guarded by mutex_: set by finish()
  std::thread thread_;
};

}  // namespace tt::hub

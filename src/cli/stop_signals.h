#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

namespace tt::cli {

/// The signals that end a run. SIGUSR1 asks the run to end after its step. Without a launcher the
/// first SIGTERM or SIGINT does the same, and the second ends the process. Under a launcher a rank
/// has about a second after SIGTERM: this class reports the end, then ends the process with
/// 128 + the number of the signal. Ranks other than the first then wait for the first one: if they
/// ended earlier, the launcher would end it.
/// Thread: construct it before any other thread, because threads inherit the blocked signals.
class StopSignals {
 public:
  StopSignals(bool has_launcher, bool is_first);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that asked the run to end; 0: no signal. Thread: any.
  int received() const { return received_.load(std::memory_order_relaxed); }
  /// 128 + SIGTERM or SIGINT if one of them asked the run to end, else 0. Thread: any.
  int exit_code() const;
  /// From now on `report` is called before a signal ends the process at once. Its thread is that of
  /// this class. Returns when a former function does not run and will not be called. Thread: any.
  void on_end(std::function<void()> report);

 private:
  void wait_for_signals();
  [[noreturn]] void end(int signal);

  const bool has_launcher_;
  const bool is_first_;
  std::atomic<int> received_ = 0;
  std::atomic<bool> is_over_ = false;
  std::mutex mutex_;
  std::function<void()> report_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace tt::cli

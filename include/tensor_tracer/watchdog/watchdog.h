#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "tensor_tracer/comm/collective_log.h"
#include "tensor_tracer/watchdog/missing_ranks.h"
#include "tensor_tracer/watchdog/rank_board.h"

namespace tt::watchdog {

struct WatchdogOptions {
  std::string folder;  // of the RankBoard, which rank 0 has made; empty: ranks have none in common
  int ranks = 1;       // of the run
  std::chrono::duration<double> timeout{0};        // seconds in a collective; 0: no limit
  std::chrono::duration<double> first_timeout{0};  // until the first step has ended
  std::function<std::string(int rank)> name_of;    // "rank 3 (tensor 1, data 1)"
  /// Writes this rank's part of the flight record; called once. `is_reporter`: this rank has found
  /// the reason. Thread: that of this class, or the caller of fail().
  std::function<void(const Alarm&, const RankStates&, bool is_reporter)> record;
  /// Ends the process after an alarm of the watchdog. Thread: that of this class.
  std::function<void()> end;
};

/// A thread that checks how long this rank waits in a collective. It publishes the state of this
/// rank. If the wait is too long, it compares the states of all ranks and names the missing ranks.
/// If another rank has failed, it writes this rank's files of the flight record. Thread: the owner.
class Watchdog {
 public:
  /// The time from the limit to the report: two states of each rank are compared.
  static constexpr std::chrono::milliseconds kGrace{1400};

  /// `log` outlives this object.
  Watchdog(WatchdogOptions options, const comm::CollectiveLog& log);
  /// Ends the thread. If no rank has failed, also removes this rank's state.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// This rank has failed and will end the run: all ranks write their part of the flight record.
  /// Waits for them, 2 s at most.
  void fail(const std::string& reason);
  /// This rank ends before the run does. If the process of another rank on this host has ended
  /// without this call, that is the failure: this rank writes its part of the flight record. Then
  /// the others no longer see the state of this rank. Thread: any.
  void leave();

 private:
  using Clock = std::chrono::steady_clock;

  void run();
  void check();
  bool waits_too_long() const;
  void investigate();
  void accuse(const Verdict& verdict, const RankStates& states);
  void follow(const Alarm& alarm);
  void record(const Alarm& alarm, bool is_reporter, const RankStates& states);
  void wait_for_records(const Alarm& alarm, std::chrono::milliseconds limit);
  RankState own_state();
  void publish();
  void leave_board();
  /// The failure of a rank whose process has ended.
  std::optional<Alarm> find_death(const RankStates& states) const;
  RankStates read_states();
  /// False: this object is being destroyed.
  bool sleep(std::chrono::milliseconds time);

  const WatchdogOptions options_;
  const comm::CollectiveLog& log_;
  const RankBoard board_;
  std::atomic<std::uint64_t> beat_ = 0;
  std::atomic<bool> has_noticed_ = false;
  std::atomic<bool> has_recorded_ = false;
  ExcusedBeats excused_;
  Clock::time_point excused_until_;
  std::mutex record_mutex_;
  std::mutex mutex_;
  std::condition_variable ending_;
  bool is_over_ = false;  // guarded by mutex_
  std::mutex publish_mutex_;
  bool has_left_ = false;  // guarded by publish_mutex_
  std::thread thread_;
};

}  // namespace tt::watchdog

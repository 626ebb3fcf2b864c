#pragma once

#include <functional>

namespace tt::hub::dialect {

/// Limits a thread to the CPU time that the machine leaves idle. Where little is idle, the thread
/// gets 3 % of one CPU: ranks that wait for each other leave up to half a CPU idle, and need it in
/// the next moment. SCHED_IDLE is no alternative: Linux weighs such a thread only within its
/// session or control group, and weighs the groups against each other. The thread may then get all
/// the time that it asks for, or none for many seconds. Thread: one at a time.
class SpareTime {
 public:
  using Seconds = std::function<double()>;
  /// `now`: a steady clock, in seconds. `idle`: the sum of the CPU seconds in which the machine's
  /// CPUs were idle.
  SpareTime(Seconds now, Seconds idle);
  /// Uses the clocks of the running machine.
  SpareTime();

  void spend(double cpu_seconds) { debt_ += cpu_seconds; }
  /// True if the machine has since left as much time as was spent.
  bool is_covered();

 private:
  const Seconds now_, idle_;
  double last_now_;
  double window_now_, window_idle_;  // start of the window that measures idle time
  double share_;                     // of one CPU; may be spent
  double debt_ = 0;
};

}  // namespace tt::hub::dialect

#pragma once

#include <functional>

namespace tt::hub::dialect {

/// Keeps a thread to the CPU time that the machine leaves idle, and to 3 % of one CPU where it
/// leaves little: ranks that wait for each other leave up to half a CPU, and need it the next
/// moment. SCHED_IDLE does not: Linux weighs such a thread within its own session or control
/// group, and those against each other, so that it may get all that it asks for, or nothing for
/// many seconds. Thread: one at a time.
class SpareTime {
 public:
  using Seconds = std::function<double()>;
  /// `now`: a steady clock. `idle`: CPU seconds for which the machine's CPUs were idle, added up.
  SpareTime(Seconds now, Seconds idle);
  /// Of the running machine.
  SpareTime();

  void spend(double cpu_seconds) { debt_ += cpu_seconds; }
  /// Whether the machine has left as much since as was spent.
  bool is_covered();

 private:
  const Seconds now_, idle_;
  double last_now_;
  double window_now_, window_idle_;  // where the window began over which idle time is looked at
  double share_;                     // of one CPU, that may be spent
  double debt_ = 0;
};

}  // namespace tt::hub::dialect

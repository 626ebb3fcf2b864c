#pragma once

#include <functional>

namespace tt::hub::dialect {

/// Keeps a thread to the CPU time that the machine leaves idle, and to 5 % of one CPU where it
/// leaves none. SCHED_IDLE alone does not: with Linux's autogroups a thread is weighed against its
/// own session only, and the hub has one of its own. Thread: one at a time.
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
  double last_now_, last_idle_;
  double debt_ = 0;
};

}  // namespace tt::hub::dialect

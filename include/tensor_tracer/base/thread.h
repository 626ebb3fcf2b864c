#pragma once

namespace tt::base {

/// Lets the calling thread run on every CPU that the machine gives this process. mpirun pins its
/// ranks to CPUs, and threads and child processes inherit this. Best effort.
/// Thread: affects the calling thread only.
void reset_affinity();

/// The calling thread's name in tools such as top and gdb; at most 15 characters.
void set_thread_name(const char* name);

/// CPU seconds that the calling thread has used.
double thread_cpu_seconds();
/// CPU seconds that all threads of this process have used.
double process_cpu_seconds();

/// Adds the calling thread's CPU time between construction and destruction to a sum. The sum
/// outlives this object.
class CpuTimer {
 public:
  explicit CpuTimer(double& sum) : sum_(sum), begin_(thread_cpu_seconds()) {}
  ~CpuTimer() { sum_ += thread_cpu_seconds() - begin_; }
  CpuTimer(const CpuTimer&) = delete;
  CpuTimer& operator=(const CpuTimer&) = delete;

 private:
  double& sum_;
  const double begin_;
};

}  // namespace tt::base

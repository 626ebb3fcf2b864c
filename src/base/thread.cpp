#include "tensor_tracer/base/thread.h"

#include <pthread.h>
#include <sched.h>

#include <ctime>

namespace tt::base {
namespace {

double seconds_of(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

void reset_affinity() {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) CPU_SET(cpu, &all);
  // The kernel leaves out the CPUs that the process may not use.
  sched_setaffinity(0, sizeof(all), &all);
}

void set_thread_name(const char* name) { pthread_setname_np(pthread_self(), name); }

double thread_cpu_seconds() { return seconds_of(CLOCK_THREAD_CPUTIME_ID); }
double process_cpu_seconds() { return seconds_of(CLOCK_PROCESS_CPUTIME_ID); }

}  // namespace tt::base

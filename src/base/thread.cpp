#include "tensor_tracer/base/thread.h"

#include <pthread.h>
#include <sched.h>

namespace tt::base {

void reset_affinity() {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    CPU_SET(cpu, &all);
  }
  // The kernel takes away what the process may not use.
  sched_setaffinity(0, sizeof(all), &all);
}

void set_thread_name(const char* name) { pthread_setname_np(pthread_self(), name); }

}  // namespace tt::base

#include "src/trace/cuda/kernel.cuh"
#include "src/trace/device/stats_join.h"

namespace tt::trace::device {

void register_stats() {
  register_for_all_elements<StatsReducer>();
  JoinLauncher<StatsJoin<float>>::launch = launch_join<StatsJoin<float>>;
  JoinLauncher<StatsJoin<double>>::launch = launch_join<StatsJoin<double>>;
}

}  // namespace tt::trace::device

#include "src/hub/legacy/spare_time.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <utility>

namespace tt::hub::dialect {
namespace {

constexpr double kLeastShare = 0.03;  // of one CPU; always allowed
constexpr double kLeftAlone = 0.5;    // number of idle CPUs left unused
constexpr double kWindow = 0.5;       // seconds
constexpr double kMaxSaved = 0.1;     // seconds that may be saved for later use

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Reads the first line of /proc/stat: "cpu", then the ticks of user, nice, system, idle.
double machine_idle_seconds() {
  std::ifstream file("/proc/stat");
  std::string name;
  double user = 0, nice = 0, system = 0, idle = 0;
  file >> name >> user >> nice >> system >> idle;
  return idle / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace

SpareTime::SpareTime(Seconds now, Seconds idle)
    : now_(std::move(now)),
      idle_(std::move(idle)),
      last_now_(now_()),
      window_now_(last_now_),
      window_idle_(idle_()),
      share_(kLeastShare) {}

SpareTime::SpareTime() : SpareTime(steady_seconds, machine_idle_seconds) {}

bool SpareTime::is_covered() {
  const double now = now_();
  if (now - window_now_ >= kWindow) {
    const double idle = idle_();
    share_ = std::max((idle - window_idle_) / (now - window_now_) - kLeftAlone, kLeastShare);
    window_now_ = now;
    window_idle_ = idle;
  }
  debt_ = std::max(debt_ - share_ * (now - last_now_), -kMaxSaved);
  last_now_ = now;
  return debt_ <= 0;
}

}  // namespace tt::hub::dialect

#include "src/hub/fanout/rate_policy.h"

#include <utility>

namespace tt::hub {

std::vector<protocol::RecordKey> RatePolicy::set_pause(std::chrono::nanoseconds pause) {
  pause_ = pause;
  next_.clear();
  const auto waiting = std::exchange(waiting_, {});
  return {waiting.begin(), waiting.end()};
}

bool RatePolicy::must_wait(const protocol::RecordKey& key, Clock::time_point now) {
  if (pause_.count() == 0) return false;
  Clock::time_point& next = next_[key];
  if (now < next) {
    waiting_.insert(key);
    return true;
  }
  next = now + pause_;
  waiting_.erase(key);
  return false;
}

std::vector<protocol::RecordKey> RatePolicy::take_due(Clock::time_point now) {
  std::vector<protocol::RecordKey> due;
  for (auto key = waiting_.begin(); key != waiting_.end();) {
    if (now < next_[*key]) {
      ++key;
      continue;
    }
    next_[*key] = now + pause_;
    due.push_back(*key);
    key = waiting_.erase(key);
  }
  return due;
}

}  // namespace tt::hub

#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>

/// Limits on the requests of one client. Thread: the hub's I/O thread only.
namespace tt::hub {

struct MessageLimit {
  double per_second = 100;  // sustained
  double burst = 200;       // at one time, after a while without messages
  int refusals = 1000;      // since the bucket was last full; after them the connection ends
};

/// Counts the messages of one viewer: a bucket that time fills; every message takes one token from
/// it.
class MessageGate {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Verdict { kPass, kRefuse, kClose };

  explicit MessageGate(const MessageLimit& limit) : limit_(limit), tokens_(limit.burst) {}

  /// What to do with a message that arrived at `now`; times never decrease.
  Verdict admit(Clock::time_point now) {
    const std::chrono::duration<double> since = now - filled_;
    if (filled_ != Clock::time_point())
      tokens_ = std::min(limit_.burst, tokens_ + since.count() * limit_.per_second);
    filled_ = now;
    if (tokens_ >= limit_.burst) refused_ = 0;
    if (tokens_ >= 1) {
      tokens_ -= 1;
      return Verdict::kPass;
    }
    return ++refused_ > limit_.refusals ? Verdict::kClose : Verdict::kRefuse;
  }
  /// Returns a token: the last admitted message was only the answer to a message of the hub.
  void give_back() { tokens_ = std::min(limit_.burst, tokens_ + 1); }

 private:
  MessageLimit limit_;
  double tokens_;
  Clock::time_point filled_;
  int refused_ = 0;
};

/// Counts wrong tokens of POST /auth. Right tokens are not counted, so no user can be locked out.
class FailureWindow {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMaxFailures = 10;
  static constexpr auto kWindow = std::chrono::seconds(60);

  /// Counts a failure at `now`. True if the window already had as many failures as are allowed.
  bool too_many(Clock::time_point now) {
    while (!failures_.empty() && now - failures_.front() >= kWindow) failures_.pop_front();
    if (failures_.size() >= kMaxFailures) return true;
    failures_.push_back(now);
    return false;
  }

  /// The time until the next failure is answered as a failure. REQUIRES: too_many() was true at
  /// `now`.
  std::chrono::seconds retry_after(Clock::time_point now) const {
    return std::chrono::ceil<std::chrono::seconds>(failures_.front() + kWindow - now);
  }

 private:
  std::deque<Clock::time_point> failures_;  // at most kMaxFailures, oldest first
};

}  // namespace tt::hub

#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>

/// How much one client may ask for. Thread: the hub's I/O thread only.
namespace tt::hub {

struct MessageLimit {
  double per_second = 100;  // sustained
  double burst = 200;       // at once, after a while of silence
  int refusals = 1000;      // since the bucket was full last, after which the connection ends
};

/// The messages of one viewer: a bucket that fills with time and that every message takes one from.
class MessageGate {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Verdict { kPass, kRefuse, kClose };

  explicit MessageGate(const MessageLimit& limit) : limit_(limit), tokens_(limit.burst) {}

  /// The treatment of a message that came at `now`; times never go back.
  Verdict admit(Clock::time_point now) {
    const std::chrono::duration<double> since = now - filled_;
    if (filled_ != Clock::time_point()) {
      tokens_ = std::min(limit_.burst, tokens_ + since.count() * limit_.per_second);
    }
    filled_ = now;
    if (tokens_ >= limit_.burst) {
      refused_ = 0;
    }
    if (tokens_ >= 1) {
      tokens_ -= 1;
      return Verdict::kPass;
    }
    return ++refused_ > limit_.refusals ? Verdict::kClose : Verdict::kRefuse;
  }
  /// The message that was admitted last was only the answer to a message of the hub.
  void give_back() { tokens_ = std::min(limit_.burst, tokens_ + 1); }

 private:
  MessageLimit limit_;
  double tokens_;
  Clock::time_point filled_;
  int refused_ = 0;
};

/// Wrong tokens of POST /auth. Right ones never come here, so nobody can be locked out.
class FailureWindow {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMaxFailures = 10;
  static constexpr auto kWindow = std::chrono::seconds(60);

  /// Counts a failure at `now`. True: there were as many as are allowed within the window already.
  bool too_many(Clock::time_point now) {
    while (!failures_.empty() && now - failures_.front() >= kWindow) {
      failures_.pop_front();
    }
    if (failures_.size() >= kMaxFailures) {
      return true;
    }
    failures_.push_back(now);
    return false;
  }

  /// When the next failure will be answered as one. REQUIRES: too_many() was true at `now`.
  std::chrono::seconds retry_after(Clock::time_point now) const {
    return std::chrono::ceil<std::chrono::seconds>(failures_.front() + kWindow - now);
  }

 private:
  std::deque<Clock::time_point> failures_;  // at most kMaxFailures, oldest first
};

}  // namespace tt::hub

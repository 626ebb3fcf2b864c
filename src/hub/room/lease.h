#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "src/hub/fanout/clock.h"
#include "tensor_tracer/base/result.h"

namespace tt::hub {

/// The right to control the run. At most one session holds it, for as long as the session keeps
/// sending.
/// Thread: the hub's I/O thread only.
class Lease {
 public:
  explicit Lease(std::chrono::milliseconds duration) : duration_(duration) {}

  /// Gives the lease to `session`. The error's code is "busy" if another session holds the lease
  /// and is still connected, and take_over is false.
  base::Status claim(const std::string& session, const std::string& name, bool take_over,
                     Clock::time_point now);
  /// Any message of the holder renews the lease; messages of other sessions have no effect.
  void renew(std::string_view session, Clock::time_point now);
  /// The holder's connection ended: the lease continues, but any session may claim it.
  void disconnected(std::string_view session);
  /// True if `session` held the lease.
  bool release(std::string_view session);
  /// True if the holder's time has just ended.
  bool expire(Clock::time_point now);

  const std::string& name() const { return name_; }
  bool held() const { return !session_.empty(); }
  bool held_by(std::string_view session) const { return held() && session_ == session; }
  std::chrono::milliseconds duration() const { return duration_; }
  /// {"holder": null or {"session", "name"}}.
  nlohmann::json describe() const;

 private:
  std::chrono::milliseconds duration_;
  std::string session_;  // empty: no session
  std::string name_;
  bool connected_ = false;
  Clock::time_point end_;
};

}  // namespace tt::hub

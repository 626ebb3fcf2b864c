#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "src/hub/clock.h"
#include "tensor_tracer/base/result.h"

namespace tt::hub {

/// The right to control the run: at most one session holds it, as long as it keeps sending.
/// Thread: the hub's I/O thread only.
class Lease {
 public:
  explicit Lease(std::chrono::milliseconds duration) : duration_(duration) {}

  /// Gives the lease to `session`. "busy" if another one holds it, is still connected, and
  /// take_over is false.
  base::Status claim(const std::string& session, const std::string& name, bool take_over,
                     Clock::time_point now);
  /// Any message of the holder; of others without effect.
  void renew(std::string_view session, Clock::time_point now);
  /// The holder's connection ended: the lease runs on, but anybody may claim it.
  void disconnected(std::string_view session);
  /// True if `session` held it.
  bool release(std::string_view session);
  /// True if the time of its holder was over just now.
  bool expire(Clock::time_point now);

  const std::string& name() const { return name_; }
  bool held() const { return !session_.empty(); }
  bool held_by(std::string_view session) const { return held() && session_ == session; }
  std::chrono::milliseconds duration() const { return duration_; }
  /// {"holder": null or {"session", "name"}}.
  nlohmann::json describe() const;

 private:
  std::chrono::milliseconds duration_;
  std::string session_;  // empty: nobody
  std::string name_;
  bool connected_ = false;
  Clock::time_point end_;
};

}  // namespace tt::hub

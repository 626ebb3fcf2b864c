#include "src/hub/room/lease.h"

namespace tt::hub {

base::Status Lease::claim(const std::string& session, const std::string& name, bool take_over,
                          Clock::time_point now) {
  if (held() && session_ != session && connected_ && !take_over) {
    return base::Error{.code = "busy",
                       .message = (name_.empty() ? session_ : name_) + " controls the run",
                       .remedy = "ask for it, or take over"};
  }
  session_ = session;
  name_ = name;
  connected_ = true;
  end_ = now + duration_;
  return {};
}

void Lease::renew(std::string_view session, Clock::time_point now) {
  if (held_by(session)) end_ = now + duration_;
}

void Lease::disconnected(std::string_view session) {
  if (held_by(session)) connected_ = false;
}

bool Lease::release(std::string_view session) {
  if (!held_by(session)) return false;
  session_.clear();
  name_.clear();
  return true;
}

bool Lease::expire(Clock::time_point now) {
  return held() && now >= end_ && release(std::string(session_));
}

nlohmann::json Lease::describe() const {
  nlohmann::json holder;
  if (held()) holder = {{"session", session_}, {"name", name_}};
  return {{"holder", std::move(holder)}};
}

}  // namespace tt::hub

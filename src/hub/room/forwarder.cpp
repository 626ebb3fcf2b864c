#include "src/hub/room/forwarder.h"

#include <algorithm>
#include <utility>

namespace tt::hub {
namespace {

using nlohmann::json;

bool is_change(const Forwarder::Asker& asker) {
  return protocol::row_of(asker.request).needs_lease;
}

}  // namespace

void Forwarder::send(Asker asker, Clock::time_point now) {
  const std::uint64_t id = ++last_id_;
  if (is_change(asker)) notify_trainer_who_asks(asker);
  leaders_.trainer()->send(protocol::encode_request(id, asker.request));
  const bool takes_long = protocol::row_of(asker.request).takes_long;
  const auto deadline = takes_long ? Clock::time_point::max() : now + timeout_;
  pending_.emplace(id, Pending{std::move(asker), deadline});
}

// In the form in which viewers learn who holds the lease.
void Forwarder::notify_trainer_who_asks(const Asker& asker) {
  json holder = nullptr;
  if (!asker.session.empty())
    holder = {{"session", asker.session}, {"name", asker.who.empty() ? asker.session : asker.who}};
  if (holder != told_holder_) {
    told_holder_ = holder;
    leaders_.trainer()->send(
        protocol::encode_notification("control", {{"holder", std::move(holder)}}));
  }
}

void Forwarder::on_answer(protocol::Answer answer) {
  const auto node = pending_.extract(answer.id);
  if (node.empty()) return;
  late_.erase(answer.id);
  const Asker& asker = node.mapped().asker;
  auto outcome =
      std::visit([](auto& said) { return base::Result<json>(std::move(said)); }, answer.outcome);
  if (is_change(asker)) write_trail(asker, outcome);
  if (!asker.told) finish_(asker, std::move(outcome));
}

void Forwarder::write_trail(const Asker& asker, const base::Result<json>& outcome) {
  const std::string method(protocol::row_of(asker.request).method);
  if (!outcome.ok()) {
    const base::Error& error = outcome.error();
    audit_log_.event("refused",
                     {{"method", method}, {"code", error.code}, {"message", error.message}},
                     asker.session, asker.who);
    return;
  }
  json detail = {{"params", protocol::params_of(asker.request)}, {"result", outcome.value()}};
  json& result = detail["result"];
  if (result.is_object()) {
    result.erase("records");  // records of a preview; they may be megabytes
    if (result.contains("step")) detail["step"] = result["step"];
  }
  audit_log_.event(method, std::move(detail), asker.session, asker.who);
}

void Forwarder::end_all() {
  told_holder_ = nullptr;
  late_.clear();
  for (const auto& [id, pending] : std::exchange(pending_, {})) {
    const Asker& asker = pending.asker;
    if (is_change(asker)) {
      audit_log_.event("unanswered",
                       {{"method", protocol::row_of(asker.request).method},
                        {"params", protocol::params_of(asker.request)}},
                       asker.session, asker.who);
    }
    if (!asker.told) finish_(asker, base::Error{"no_trainer", "the trainer's connection ended"});
  }
}

void Forwarder::tick(Clock::time_point now) {
  for (const Asker& asker : take_expired(now))
    finish_(asker, base::Error{"timeout", "the trainer did not answer in time"});
}

std::vector<Forwarder::Asker> Forwarder::take_expired(Clock::time_point now) {
  std::vector<Asker> askers;
  for (auto next = pending_.begin(); next != pending_.end();) {
    const auto pending = next++;
    Asker& asker = pending->second.asker;
    if (asker.told || now < pending->second.deadline) continue;
    askers.push_back(asker);
    if (is_change(asker)) {
      asker.told = true;
      late_.insert(pending->first);
    } else {
      pending_.erase(pending);
    }
  }
  while (late_.size() > kMaxLate) {
    pending_.erase(*late_.begin());
    late_.erase(late_.begin());
  }
  return askers;
}

std::size_t Forwarder::waiting(std::string_view session) const {
  return static_cast<std::size_t>(std::count_if(
      pending_.begin(), pending_.end(),
      [&](const auto& pending) {
        return pending.second.asker.session == session && !pending.second.asker.told;
      }));
}

}  // namespace tt::hub

#include "src/link/channel.h"

#include <algorithm>

#include "tensor_tracer/protocol/message.h"
#include "tensor_tracer/protocol/record.h"

namespace tt::link {
namespace {

std::uint64_t count_records(std::string_view message) {
  protocol::RecordReader reader(message, protocol::RecordCheck::kHeader);
  std::uint64_t count = 0;
  while (reader.next()) ++count;
  return count;
}

// The hub lets 32 requests of each viewer wait; this is the part that may wait for the checker.
constexpr std::size_t kMaxNotices = 64;
constexpr std::size_t kMaxChecks = 8;

}  // namespace

void Channel::push_records(std::string records) {
  const std::lock_guard lock(mutex_);
  push_data_locked({.text = false, .bytes = std::move(records), .is_data = true});
}

void Channel::push_text(std::string text) {
  const std::lock_guard lock(mutex_);
  push_text_locked({.text = true, .bytes = std::move(text)});
}

void Channel::push_data(std::string text) {
  const std::lock_guard lock(mutex_);
  push_data_locked({.text = true, .bytes = std::move(text), .is_data = true});
}

void Channel::push_data_locked(Outgoing data) {
  bytes_ += data.bytes.size();
  data_.push_back(std::move(data));
  make_room();
}

void Channel::push_text_locked(Outgoing text) {
  bytes_ += text.bytes.size();
  texts_.push_back(std::move(text));
  make_room();
}

void Channel::make_room() {
  while (bytes_ > max_bytes_ && !data_.empty()) {
    const Outgoing& oldest = data_.front();
    bytes_ -= oldest.bytes.size();
    (oldest.text ? untold_events_ : dropped_) += oldest.text ? 1 : count_records(oldest.bytes);
    data_.pop_front();
  }
  while (bytes_ > max_bytes_ && !texts_.empty()) {
    bytes_ -= texts_.front().bytes.size();
    texts_.pop_front();
    ++untold_events_;
  }
}

bool Channel::must_let_go(Clock::time_point now) const {
  return !connected_ && !let_go_told_ && now - lost_at_ >= pause_timeout_;
}

std::vector<trace::Request> Channel::poll(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  std::vector<trace::Request> requests = std::exchange(arrived_requests_, {});
  if (must_let_go(now)) {
    let_go_told_ = true;
    requests.push_back({.id = 0, .body = protocol::RevertPrograms{}});
    requests.push_back({.id = 0, .body = protocol::ContinueRun{}});
  }
  return requests;
}

void Channel::wait(Clock::time_point until) {
  std::unique_lock lock(mutex_);
  // Contact may be lost during this wait, and may return.
  while (arrived_requests_.empty() && !must_let_go(Clock::now()) && Clock::now() < until) {
    const bool pause_may_end = !connected_ && !let_go_told_;
    arrived_.wait_until(lock, pause_may_end ? std::min(until, lost_at_ + pause_timeout_) : until);
  }
}

bool Channel::wait_until_written(std::chrono::milliseconds idle,
                                 std::chrono::milliseconds longest) {
  const auto end = Clock::now() + longest;
  const auto is_empty = [this] { return texts_.empty() && data_.empty() && !in_flight_; };
  std::unique_lock lock(mutex_);
  while (!is_empty()) {
    const auto moved = [&, before = writes_] { return writes_ != before; };
    if (!written_.wait_until(lock, std::min(Clock::now() + idle, end), moved)) return false;
  }
  return true;
}

std::uint64_t Channel::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

std::size_t Channel::waiting_bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::vector<std::string> Channel::take_notices() {
  const std::lock_guard lock(mutex_);
  return std::exchange(notices_, {});
}

void Channel::add_notice(std::string notice) {
  const std::lock_guard lock(mutex_);
  if (notices_.size() < kMaxNotices) notices_.push_back(std::move(notice));
}

trace::Demand Channel::demand() const {
  const std::lock_guard lock(mutex_);
  return has_viewer() || wanted_ ? demand_ : trace::Demand{.entries = 0};
}

void Channel::set_demand(std::uint64_t viewers, bool wanted, trace::Demand demand) {
  const std::lock_guard lock(mutex_);
  viewers_.store(viewers, std::memory_order_relaxed);
  wanted_ = wanted;
  demand_ = demand;
}

void Channel::set_connected() {
  const std::lock_guard lock(mutex_);
  connected_ = true;
  let_go_told_ = false;
}

void Channel::set_lost(Clock::time_point now) {
  {
    const std::lock_guard lock(mutex_);
    if (connected_) {
      connected_ = false;
      lost_at_ = now;
    }
    // The hub has reported to the viewers that the trainer has left, and a new hub uses other ids.
    std::erase_if(texts_, [this](const Outgoing& text) {
      bytes_ -= text.is_answer ? text.bytes.size() : 0;
      return text.is_answer;
    });
    arrived_requests_.clear();
    arrived_checks_.clear();
    asked_.clear();
    viewers_.store(0, std::memory_order_relaxed);
  }
  arrived_.notify_all();
}

void Channel::deliver(trace::Request request) {
  {
    const std::lock_guard lock(mutex_);
    if (expects_checks_ && !protocol::row_of(request.body).needs_lease) {
      deliver_check(std::move(request));
      return;
    }
    asked_.emplace(++last_id_, request.id);
    request.id = last_id_;
    arrived_requests_.push_back(std::move(request));
  }
  arrived_.notify_all();
}

void Channel::refuse(std::uint64_t hub_id, const base::Error& error) {
  const std::lock_guard lock(mutex_);
  push_answer_locked(protocol::encode_error(hub_id, error));
}

void Channel::deliver_check(trace::Request request) {
  if (arrived_checks_.size() >= kMaxChecks) {
    push_answer_locked(protocol::encode_error(
        request.id, {"busy", "too many requests wait to be checked", "", "ask again later"}));
    return;
  }
  asked_.emplace(++last_id_, request.id);
  request.id = last_id_;
  arrived_checks_.push_back(std::move(request));
  check_arrived_.notify_one();
}

void Channel::expect_checks() {
  const std::lock_guard lock(mutex_);
  expects_checks_ = true;
}

std::optional<trace::Request> Channel::take_check() {
  std::unique_lock lock(mutex_);
  check_arrived_.wait(lock, [this] { return !arrived_checks_.empty() || !expects_checks_; });
  if (!expects_checks_) return std::nullopt;
  trace::Request request = std::move(arrived_checks_.front());
  arrived_checks_.pop_front();
  return request;
}

void Channel::end_checks() {
  {
    const std::lock_guard lock(mutex_);
    expects_checks_ = false;
  }
  check_arrived_.notify_all();
}

std::optional<Outgoing> Channel::take() {
  const std::lock_guard lock(mutex_);
  if (auto notice = notice_of_drops()) {
    in_flight_ = true;
    return notice;
  }
  if (!texts_.empty()) return pop(texts_);
  return data_.empty() ? std::nullopt : std::optional(pop(data_));
}

Outgoing Channel::pop(std::deque<Outgoing>& from) {
  Outgoing message = std::move(from.front());
  from.pop_front();
  bytes_ -= message.bytes.size();
  in_flight_ = true;
  return message;
}

std::optional<Outgoing> Channel::notice_of_drops() {
  if (dropped_ == told_dropped_ && untold_events_ == 0) return std::nullopt;
  const std::uint64_t fresh = dropped_ - std::exchange(told_dropped_, dropped_);
  nlohmann::json params = {{"records", fresh}, {"where", "trainer"}};
  if (untold_events_ > 0) params["events"] = std::exchange(untold_events_, 0);
  return Outgoing{.text = true,
                  .bytes = protocol::encode_notification("dropped", std::move(params))};
}

void Channel::written() {
  {
    const std::lock_guard lock(mutex_);
    in_flight_ = false;
    ++writes_;
  }
  written_.notify_all();
}

void Channel::give_back(Outgoing message) {
  const std::lock_guard lock(mutex_);
  in_flight_ = false;
  if (message.is_answer) return;
  bytes_ += message.bytes.size();
  (message.is_data ? data_ : texts_).push_front(std::move(message));
  make_room();
}

}  // namespace tt::link

#include "tensor_tracer/comm/collective_log.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "tensor_tracer/comm/process_group.h"

namespace tt::comm {

std::int64_t steady_ns() noexcept {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::size_t CollectiveLog::add_group(RecordedGroup group) {
  const std::lock_guard lock(mutex_);
  groups_.emplace_back().facts = std::move(group);
  return groups_.size() - 1;
}

std::uint64_t CollectiveLog::begin(std::size_t group, const CallFacts& facts) noexcept {
  constexpr auto kRelease = std::memory_order_release;
  const std::uint64_t number = ++last_number_;
  std::uint64_t sequence = 0;
  if (facts.peer < 0) {
    std::atomic<std::uint64_t>& calls = groups_[group].calls;
    sequence = calls.load(std::memory_order_relaxed) + 1;
    calls.store(sequence, kRelease);
  }
  const std::int64_t now = steady_ns();
  Slot& slot = slots_[number % kCalls];
  slot.number.store(0, std::memory_order_relaxed);
  slot.sequence.store(sequence, kRelease);
  slot.group.store(group, kRelease);
  slot.operation.store(facts.operation, kRelease);
  slot.bytes.store(facts.bytes, kRelease);
  slot.dtype.store(facts.dtype, kRelease);
  slot.peer.store(facts.peer, kRelease);
  slot.step.store(step_.load(std::memory_order_relaxed), kRelease);
  slot.begin_ns.store(now, kRelease);
  slot.end_ns.store(0, kRelease);
  slot.number.store(number, kRelease);
  waiting_since_ns_.store(now, kRelease);
  waiting_.store(number, kRelease);
  return number;
}

void CollectiveLog::end(std::uint64_t number) noexcept {
  Slot& slot = slots_[number % kCalls];
  if (slot.number.load(std::memory_order_relaxed) == number)
    slot.end_ns.store(steady_ns(), std::memory_order_release);
  end_wait();
}

void CollectiveLog::begin_wait(std::uint64_t number) noexcept {
  waiting_since_ns_.store(steady_ns(), std::memory_order_release);
  waiting_.store(number, std::memory_order_release);
}

void CollectiveLog::begin_step(std::int64_t step) noexcept {
  if (step_.load(std::memory_order_relaxed) > 0)
    has_ended_a_step_.store(true, std::memory_order_release);
  step_.store(step, std::memory_order_release);
}

std::vector<RecordedGroup> CollectiveLog::groups() const {
  const std::lock_guard lock(mutex_);
  std::vector<RecordedGroup> groups;
  for (const Group& group : groups_) {
    groups.push_back(group.facts);
    groups.back().calls = group.calls.load(std::memory_order_acquire);
  }
  return groups;
}

std::optional<CollectiveCall> CollectiveLog::read(const Slot& slot) const {
  constexpr auto kAcquire = std::memory_order_acquire;
  CollectiveCall call;
  call.number = slot.number.load(kAcquire);
  call.sequence = slot.sequence.load(kAcquire);
  call.group = slot.group.load(kAcquire);
  call.operation = slot.operation.load(kAcquire);
  call.bytes = slot.bytes.load(kAcquire);
  call.dtype = slot.dtype.load(kAcquire);
  call.peer = slot.peer.load(kAcquire);
  call.step = slot.step.load(kAcquire);
  call.begin_ns = slot.begin_ns.load(kAcquire);
  call.end_ns = slot.end_ns.load(kAcquire);
  if (call.number == 0 || slot.number.load(kAcquire) != call.number) return std::nullopt;
  return call;
}

std::vector<CollectiveCall> CollectiveLog::calls() const {
  std::vector<CollectiveCall> calls;
  for (const Slot& slot : slots_)
    if (const auto call = read(slot)) calls.push_back(*call);
  std::ranges::sort(calls, {}, &CollectiveCall::number);
  return calls;
}

std::optional<PendingWait> CollectiveLog::wait() const {
  const std::uint64_t number = waiting_.load(std::memory_order_acquire);
  if (number == 0) return std::nullopt;
  const std::int64_t since = waiting_since_ns_.load(std::memory_order_acquire);
  const auto call = read(slots_[number % kCalls]);
  if (!call || call->number != number || waiting_.load(std::memory_order_acquire) != number)
    return std::nullopt;
  return PendingWait{*call, since};
}

SoloWork::SoloWork(const ProcessGroup& group, const char* name) : log_(group.log()) {
  if (log_ != nullptr) log_->set_work(name);
}

SoloWork::~SoloWork() {
  if (log_ != nullptr) log_->set_work("");
}

}  // namespace tt::comm

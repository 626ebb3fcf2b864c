#include "src/hub/alarms/alarm_calls.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "src/hub/alarms/command.h"
#include "src/hub/alarms/webhook.h"
#include "tensor_tracer/base/thread.h"

namespace tt::hub {
namespace {

constexpr auto kLastCalls = std::chrono::seconds(1);

}  // namespace

AlarmCalls::AlarmCalls(std::optional<WebhookUrl> webhook, std::vector<std::string> command,
                       std::string log)
    : webhook_(std::move(webhook)),
      command_(std::move(command)),
      log_(std::move(log)),
      thread_([this] { run(); }) {}

AlarmCalls::~AlarmCalls() {
  finish();
  thread_.join();
}

void AlarmCalls::push(std::string message) {
  const std::lock_guard lock(mutex_);
  if (waiting_.size() >= kMaxWaiting) {
    ++failed_;
    spdlog::warn("alarm_call_dropped: {} calls wait already", kMaxWaiting);
    return;
  }
  waiting_.push_back(std::move(message));
  arrived_.notify_one();
}

void AlarmCalls::finish() {
  const std::lock_guard lock(mutex_);
  if (!end_) end_ = Clock::now() + kLastCalls;
  arrived_.notify_one();
}

void AlarmCalls::run() {
  base::set_thread_name("tt-alarms");
  while (true) {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return !waiting_.empty() || end_; });
    if (waiting_.empty() || (end_ && Clock::now() >= *end_)) return;
    const std::string message = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    make(message);
  }
}

// A call gets its whole time, but not more than is left after finish().
void AlarmCalls::make(const std::string& message) {
  const auto limited = [this] {
    return [this, own = Clock::now() + kLimit] {
      const std::lock_guard lock(mutex_);
      return end_ ? std::min(own, *end_) : own;
    };
  };
  if (webhook_) report("webhook", post_webhook(*webhook_, message, limited()));
  if (!command_.empty()) report("command", run_command(command_, message + "\n", log_, limited()));
}

void AlarmCalls::report(const char* what, const base::Status& status) {
  if (!status.ok()) {
    ++failed_;
    spdlog::warn("alarm_call_failed: {}: {}", what, base::to_string(status.error()));
  }
}

}  // namespace tt::hub

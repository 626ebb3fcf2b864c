#include "src/hub/legacy/update_encoder.h"

#include <algorithm>
#include <chrono>

#include "src/hub/legacy/texts.h"
#include "tensor_tracer/base/thread.h"
#include "tensor_tracer/protocol/record.h"

namespace tt::hub::dialect {
namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(10);

}  // namespace

UpdateEncoder::UpdateEncoder(std::function<void()> on_made, const UpdateEncoderLimits& limits,
                             SpareTime spare)
    : on_made_(std::move(on_made)), limits_(limits), spare_(std::move(spare)) {}

UpdateEncoder::~UpdateEncoder() {
  if (!thread_.joinable()) return;
  turn_.store(Turn::kEnd, std::memory_order_release);
  turn_.notify_one();
  thread_.join();
}

std::optional<base::SharedBytes> UpdateEncoder::update_of(Dialect dialect,
                                                          const base::SharedBytes& record) {
  Job job{.dialect = dialect, .record = record};
  if (const auto update = updates_.find(key_of(job)); update != updates_.end())
    return update->second.text;
  if (!is_asked_for(key_of(job))) {
    waiting_.push_back(std::move(job));
    if (waiting_.size() > limits_.waiting) waiting_.pop_front();
    start_next();
  }
  return std::nullopt;
}

bool UpdateEncoder::is_asked_for(const Key& key) const {
  return (current_ && key_of(*current_) == key) ||
         std::ranges::any_of(
             waiting_, [&](const Job& job) { return key_of(job) == key; });
}

void UpdateEncoder::start_next() {
  if (current_ || waiting_.empty()) return;
  current_ = std::move(waiting_.front());
  waiting_.pop_front();
  turn_.store(Turn::kWork, std::memory_order_release);
  turn_.notify_one();
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
}

void UpdateEncoder::collect() {
  if (turn_.load(std::memory_order_acquire) != Turn::kDone) return;
  keep(*current_, std::make_shared<const std::string>(std::move(text_)));
  text_.clear();
  current_.reset();
  turn_.store(Turn::kIdle, std::memory_order_relaxed);
  start_next();
}

void UpdateEncoder::keep(const Job& job, base::SharedBytes text) {
  const Key key = key_of(job);
  Update update{.record = job.record, .text = std::move(text)};
  kept_bytes_ += update.bytes();
  updates_.emplace(key, std::move(update));
  order_.push_back(key);
  while (kept_bytes_ > limits_.kept_bytes && order_.size() > 1) {
    const auto oldest = updates_.find(order_.front());
    kept_bytes_ -= oldest->second.bytes();
    updates_.erase(oldest);
    order_.pop_front();
  }
}

void UpdateEncoder::work() {
  base::set_thread_name("tt-legacy");
  for (Turn turn = turn_.load(std::memory_order_acquire); turn != Turn::kEnd;
       turn = turn_.load(std::memory_order_acquire)) {
    if (turn != Turn::kWork) {
      turn_.wait(turn, std::memory_order_acquire);
      continue;
    }
    if (!spare_.is_covered()) {
      std::this_thread::sleep_for(kBetweenLooks);
      continue;
    }
    const double begin = base::thread_cpu_seconds();
    const auto record = protocol::read_record(*current_->record, protocol::RecordCheck::kHeader);
    text_ = update_text(current_->dialect, record.value());
    spare_.spend(base::thread_cpu_seconds() - begin);
    if (turn_.compare_exchange_strong(turn, Turn::kDone, std::memory_order_acq_rel)) on_made_();
  }
}

}  // namespace tt::hub::dialect

#include <algorithm>
#include <chrono>
#include <thread>

#include "src/comm/group_impl.h"

namespace tt::comm {
namespace {

constexpr int kYields = 200;
constexpr std::chrono::microseconds kFirstPause{10};
constexpr std::chrono::microseconds kLongestPause{1000};

}  // namespace

Work::Work() = default;
Work::Work(std::unique_ptr<detail::WorkImpl> impl) : impl_(std::move(impl)) {}
Work::Work(Work&&) noexcept = default;
Work& Work::operator=(Work&&) noexcept = default;
Work::~Work() = default;

bool Work::test() {
  if (impl_ && impl_->test()) impl_.reset();
  return !impl_;
}

void Work::wait() {
  for (int i = 0; i < kYields; ++i) {
    if (test()) return;
    std::this_thread::yield();
  }
  for (auto pause = kFirstPause; !test(); pause = std::min(2 * pause, kLongestPause))
    std::this_thread::sleep_for(pause);
}

}  // namespace tt::comm

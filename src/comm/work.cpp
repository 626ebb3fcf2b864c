#include <algorithm>
#include <chrono>
#include <thread>

#include "src/comm/group_impl.h"
#include "src/comm/operation.h"

namespace tt::comm {
namespace {

constexpr int kYields = 200;
constexpr std::chrono::microseconds kFirstPause{10};
constexpr std::chrono::microseconds kLongestPause{1000};

}  // namespace

Work::Work() = default;
Work::Work(std::unique_ptr<detail::WorkImpl> impl, detail::OpenCall call)
    : impl_(std::move(impl)), call_(call) {
  if (!impl_) call_.end();
}
Work::Work(Work&&) noexcept = default;
Work& Work::operator=(Work&&) noexcept = default;
Work::~Work() = default;

bool Work::test() {
  if (impl_ && impl_->test()) {
    impl_.reset();
    call_.end();
  }
  return !impl_;
}

void Work::wait() {
  if (test()) return;
  const detail::Waiting waiting(call_);
  for (int i = 0; i < kYields; ++i) {
    if (test()) return;
    std::this_thread::yield();
  }
  for (auto pause = kFirstPause; !test(); pause = std::min(2 * pause, kLongestPause))
    std::this_thread::sleep_for(pause);
}

}  // namespace tt::comm

#include "src/cli/stop_signals.h"

#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <utility>

#include "src/cli/exit_code.h"
#include "tensor_tracer/base/thread.h"

namespace tt::cli {
namespace {

// The other ranks leave the first rank this time to report the end.
constexpr auto kReportTime = std::chrono::seconds(1);

sigset_t stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT}) sigaddset(&signals, signal);
  return signals;
}

}  // namespace

StopSignals::StopSignals(bool has_launcher, bool is_first)
    : has_launcher_(has_launcher), is_first_(is_first) {
  const sigset_t signals = stop_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  thread_ = std::thread([this] { wait_for_signals(); });
}

StopSignals::~StopSignals() {
  is_over_ = true;
  ::pthread_kill(thread_.native_handle(), SIGUSR1);
  thread_.join();
}

int StopSignals::exit_code() const {
  const int signal = received();
  return signal == 0 || signal == SIGUSR1 ? 0 : kExitSignal + signal;
}

void StopSignals::on_end(std::function<void()> report) {
  const std::lock_guard lock(mutex_);
  report_ = std::move(report);
}

void StopSignals::wait_for_signals() {
  base::set_thread_name("tt-signals");
  const sigset_t signals = stop_signals();
  while (true) {
    int signal = 0;
    ::sigwait(&signals, &signal);
    if (is_over_) return;
    const bool is_request = signal == SIGUSR1;
    const bool is_second = received_ == SIGTERM || received_ == SIGINT;
    if (!is_request && (has_launcher_ || is_second)) end(signal);
    received_ = signal;
  }
}

void StopSignals::end(int signal) {
  const std::lock_guard lock(mutex_);
  if (report_) report_();
  if (has_launcher_ && !is_first_) std::this_thread::sleep_for(kReportTime);
  ::_exit(kExitSignal + signal);
}

}  // namespace tt::cli

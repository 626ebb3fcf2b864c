#include "tensor_tracer/hub/supervisor.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "tensor_tracer/base/spawn.h"
#include "tensor_tracer/hub/server.h"
#include "tensor_tracer/protocol/message.h"

namespace tt::hub {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr Clock::duration kFirstPause = 100ms;
constexpr Clock::duration kMaxPause = 2000ms;
constexpr auto kHealthy = 10s;      // after this lifetime a hub is restarted without a longer pause
constexpr auto kFirstStart = 8s;    // the time until the first hub must be ready
constexpr auto kGraceful = 1600ms;  // from SIGTERM to SIGKILL
// The same at the run's end, after SIGHUP, for a hub that still writes to its files: it may have 64
// MiB for a slow disk, and slow viewers.
constexpr auto kMaxEnd = 30s;
constexpr std::string_view kReady = "1";  // the hub writes it once it serves
constexpr int kReadyInChild = 3;
constexpr int kFirstListenerInChild = 4;

base::ScopedFd watch_signals() {
  sigset_t watched;
  sigemptyset(&watched);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT}) sigaddset(&watched, signal);
  sigprocmask(SIG_BLOCK, &watched, nullptr);
  return base::ScopedFd(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
}

int milliseconds_left(std::optional<Clock::time_point> end) {
  if (!end) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*end - Clock::now()).count();
  return static_cast<int>(std::max<decltype(left)>(left, 0));
}

void write_line(const base::ScopedFd& ready, std::string text) {
  text += '\n';
  if (::write(ready.get(), text.data(), text.size()) < 0)
    spdlog::warn("ready: the program that waited for the hub has ended");
}

/// Bytes that a process has passed to write() and similar calls; 0 if unknown.
std::uint64_t bytes_written(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + '/' + "io");
  std::string name;
  std::uint64_t bytes = 0;
  while (file >> name >> bytes)
    if (name == "wchar:") return bytes;
  return 0;
}

/// One supervised hub. Thread: this is the only thread of the process.
///
///     starting -> serving -> (hub died) pausing -> serving …
///         \-> failed                 any -> stopping -> ended
class Supervisor {
 public:
  Supervisor(SupervisorOptions options, std::vector<base::ScopedFd> listeners)
      : options_(std::move(options)), listeners_(std::move(listeners)), signals_(watch_signals()) {}

  /// Writes the port to `ready`, or the error of the first start, and closes `ready`.
  base::Status run(base::ScopedFd ready, int port) {
    if (base::Status first = start_first(); !first.ok()) {
      notify_failure(ready, first.error());
      return first;
    }
    write_line(ready, protocol::encode_json({{"port", port}}));
    ready.reset();
    while (!ending_ || child_ > 0) {
      wait_for_something();
      if (ending_ && child_ > 0 && deadline_ && Clock::now() >= *deadline_ && !is_given_longer()) {
        spdlog::error("hub_killed: it did not end in time; a recording may lack its last records");
        ::kill(child_, SIGKILL);
        deadline_.reset();  // it ends when the kernel ends it
      }
      if (!ending_ && child_ == 0 && Clock::now() >= *deadline_) restart();
    }
    return {};
  }

 private:
  base::Status start_first() {
    base::Result<base::ScopedFd> ready = start({});
    if (!ready) return ready.error();
    const std::string said = base::read_until(ready.value(), Clock::now() + kFirstStart);
    if (said == kReady) return {};
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    const protocol::Message message = protocol::parse_message(said);
    const auto* answer = std::get_if<protocol::Answer>(&message);
    const auto* error = answer != nullptr ? std::get_if<base::Error>(&answer->outcome) : nullptr;
    return error != nullptr ? *error
                            : base::Error{.code = "hub_failed",
                                          .message = "the hub ended at once",
                                          .remedy = "see hub.log in the run directory"};
  }

  // Starts a hub. Returns the reading end of the pipe on which the hub reports that it is ready.
  base::Result<base::ScopedFd> start(const std::vector<std::string>& more) {
    auto pipe = base::make_pipe();
    if (!pipe) return pipe.error();
    base::SpawnOptions spawn{.program = options_.program,
                             .arguments = {"serve", "--run-dir", options_.run_dir},
                             .passed = {{pipe.value().second.get(), kReadyInChild}},
                             .output = {}};
    spawn.arguments.insert(spawn.arguments.end(), more.begin(), more.end());
    spawn.arguments.insert(spawn.arguments.end(), {"--ready-fd", std::to_string(kReadyInChild)});
    int in_child = kFirstListenerInChild;
    for (const base::ScopedFd& listener : listeners_) {
      spawn.passed.emplace_back(listener.get(), in_child);
      spawn.arguments.insert(spawn.arguments.end(), {"--listen-fd", std::to_string(in_child++)});
    }
    const base::Result<pid_t> child = base::spawn(spawn);
    if (!child) return child.error();
    child_ = child.value();
    started_ = Clock::now();
    return std::move(pipe.value().first);
  }

  void restart() {
    deadline_.reset();
    std::error_code failure;
    if (!std::filesystem::exists(options_.run_dir, failure) && !failure) {
      // Without the directory no token is valid; clients would only wait in the backlog.
      stop("the run directory is gone: no hub can be started", SIGTERM, kGraceful);
      return;
    }
    if (const auto ready = start({"--restarted"}); !ready) {
      spdlog::error("hub_restart_failed: {}", base::to_string(ready.error()));
      plan_restart();
      return;
    }
    spdlog::warn("hub_restarted: the hub was started again, process {}", child_);
  }

  void plan_restart() {
    pause_ = Clock::now() - started_ > kHealthy ? kFirstPause : std::min(pause_ * 2, kMaxPause);
    deadline_ = Clock::now() + pause_;
  }

  void wait_for_something() {
    std::array<pollfd, 2> watched = {
        {{signals_.get(), POLLIN, 0}, {options_.alive.get(), POLLIN, 0}}};
    // poll ignores a negative descriptor, as `alive` is after the run has ended.
    ::poll(watched.data(), watched.size(), milliseconds_left(deadline_));
    if (watched[1].revents != 0) on_alive();
    if (watched[0].revents != 0) on_signal();
  }

  void on_alive() {
    char byte = 0;
    if (::read(options_.alive.get(), &byte, 1) != 0) return;
    options_.alive.reset();
    if (options_.linger)
      spdlog::info("run_ended: the hub stays until it gets SIGTERM or SIGINT");
    else
      stop("the run has ended", SIGHUP, kMaxEnd);
  }

  void on_signal() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof(info)) == sizeof(info))
      if (info.ssi_signo != SIGCHLD) stop("asked by a signal", SIGTERM, kGraceful);
    int status = 0;
    if (child_ <= 0 || ::waitpid(child_, &status, WNOHANG) != child_) return;
    child_ = 0;
    if (!ending_) {
      spdlog::error("hub_died: wait status {}", status);
      plan_restart();
    }
  }

  // True at the run's end for a hub that still writes.
  bool is_given_longer() {
    const std::uint64_t before = std::exchange(written_, bytes_written(child_));
    if (written_ == before || Clock::now() >= longest_) return false;
    deadline_ = Clock::now() + kGraceful;
    return true;
  }

  // A signal after the run's end shortens the time.
  void stop(const char* why, int signal, Clock::duration longest) {
    longest_ = Clock::now() + longest;
    if (!ending_) {
      spdlog::info("supervisor_ends: {}", why);
      ending_ = true;
      listeners_.clear();
      deadline_ = Clock::now() + kGraceful;
    }
    if (child_ > 0) {
      written_ = bytes_written(child_);
      ::kill(child_, signal);
    }
  }

  SupervisorOptions options_;
  std::vector<base::ScopedFd> listeners_;  // all with the same port
  base::ScopedFd signals_;
  pid_t child_ = 0;  // 0: none
  bool ending_ = false;
  Clock::time_point started_;
  Clock::duration pause_ = kFirstPause / 2;
  std::uint64_t written_ = 0;                  // by the ending hub
  Clock::time_point longest_;                  // limit of the ending hub's time
  std::optional<Clock::time_point> deadline_;  // end of the pause, or of the hub's time to end
};

}  // namespace

void notify_failure(const base::ScopedFd& ready, const base::Error& error) {
  if (ready) write_line(ready, protocol::encode_error(0, error));
}

base::Status supervise(SupervisorOptions options) {
  std::signal(SIGPIPE, SIG_IGN);
  base::ScopedFd ready = std::move(options.ready);
  base::Result<std::vector<base::ScopedFd>> listeners = open_listeners(options.bind, options.port);
  if (!listeners) {
    notify_failure(ready, listeners.error());
    return listeners.error();
  }
  const base::Result<int> port = port_of(listeners.value().front());
  if (!port) {
    notify_failure(ready, port.error());
    return port.error();
  }
  Supervisor supervisor(std::move(options), std::move(listeners).value());
  return supervisor.run(std::move(ready), port.value());
}

}  // namespace tt::hub

#include "tensor_tracer/base/run_dir_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <system_error>
#include <thread>

#include "tensor_tracer/base/private_file.h"

namespace tt::base {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLongestWait = std::chrono::seconds(2);
constexpr auto kPoll = std::chrono::milliseconds(20);

// Errno of the last try; 0: the lock is taken.
int try_to_lock(const ScopedFd& file) {
  const auto end = Clock::now() + kLongestWait;
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR && (errno != EWOULDBLOCK || Clock::now() >= end)) return errno;
    std::this_thread::sleep_for(kPoll);
  }
  return 0;
}

// A warning goes to standard error: standard output may be a log of steps as JSON.
void warn(const std::string& text) {
  std::fprintf(stderr, "tensor-tracer: warning: %s\n", text.c_str());
}

Error in_use(const std::string& lock, const std::string& option) {
  const auto holder = read_small_file(lock);
  const std::string process =
      holder.ok() && !holder.value().empty() ? " (process " + holder.value() + ")" : "";
  return {.code = "run_dir_in_use",
          .message = "another run, or its hub, still uses this directory" + process,
          .where = lock.substr(0, lock.rfind('/')),
          .remedy = "give another " + option + ", or wait until that process has ended"};
}

}  // namespace

Result<ScopedFd> lock_run_dir(const std::string& run_dir) {
  return lock_file(run_dir + "/lock", "--run-dir");
}

Result<ScopedFd> lock_file(const std::string& path, const std::string& option) {
  ScopedFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) {
    return Error{.code = "io_error",
                 .message = "cannot be written: " + std::generic_category().message(errno),
                 .where = path,
                 .remedy = "give another " + option};
  }
  const int failure = try_to_lock(file);
  if (failure == EWOULDBLOCK) return in_use(path, option);
  if (failure != 0) {
    warn(path + " cannot be locked: " + std::generic_category().message(failure) +
         "; a second run in this directory would not be refused");
  }
  write_lock_holder(file, ::getpid());
  return file;
}

bool is_run_dir_locked(const std::string& run_dir) {
  const ScopedFd file(
      ::open((run_dir + "/lock").c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  return file && ::flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

void write_lock_holder(const ScopedFd& lock, pid_t process) {
  const std::string text = std::to_string(process);
  if (::ftruncate(lock.get(), 0) != 0 || ::pwrite(lock.get(), text.data(), text.size(), 0) < 0)
    warn("process " + text + " cannot be written into the lock of the run directory");
}

}  // namespace tt::base

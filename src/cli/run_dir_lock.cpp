#include "src/cli/run_dir_lock.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include "tensor_tracer/base/private_file.h"

namespace tt::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLongestWait = std::chrono::seconds(2);
constexpr auto kPoll = std::chrono::milliseconds(20);

// Errno of the last try; 0: taken.
int try_to_lock(const base::ScopedFd& file) {
  const auto end = Clock::now() + kLongestWait;
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR && (errno != EWOULDBLOCK || Clock::now() >= end)) {
      return errno;
    }
    std::this_thread::sleep_for(kPoll);
  }
  return 0;
}

base::Error in_use(const std::string& run_dir, const std::string& lock) {
  const auto holder = base::read_small_file(lock);
  const std::string process =
      holder.ok() && !holder.value().empty() ? " (process " + holder.value() + ")" : "";
  return {.code = "run_dir_in_use",
          .message = "another run, or its hub, still uses this directory" + process,
          .where = run_dir,
          .remedy = "give another --run-dir, or wait until that process has ended"};
}

}  // namespace

base::Result<base::ScopedFd> lock_run_dir(const std::string& run_dir) {
  const std::string path = run_dir + "/lock";
  base::ScopedFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) {
    return base::Error{.code = "io_error",
                       .message = "cannot be written: " + std::generic_category().message(errno),
                       .where = path,
                       .remedy = "give another --run-dir"};
  }
  const int failure = try_to_lock(file);
  if (failure == EWOULDBLOCK) {
    return in_use(run_dir, path);
  }
  if (failure != 0) {
    spdlog::warn("no_lock: {} cannot be locked: {}", path,
                 std::generic_category().message(failure));
  }
  const std::string process = std::to_string(::getpid());
  if (::ftruncate(file.get(), 0) != 0 || ::write(file.get(), process.data(), process.size()) < 0) {
    spdlog::warn("lock_without_process: {} cannot be written", path);
  }
  return file;
}

}  // namespace tt::cli

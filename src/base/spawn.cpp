#include "tensor_tracer/base/spawn.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>
#include <system_error>

namespace tt::base {
namespace {

Error system_error(const std::string& what, int number) {
  const bool too_many = number == EMFILE || number == EINVAL;  // EINVAL: from F_DUPFD
  return {.code = "io_error",
          .message = what + ": " + std::generic_category().message(too_many ? EMFILE : number),
          .remedy = too_many ? "raise the limit of open files: ulimit -n 1024" : ""};
}

bool is_of_launcher(std::string_view variable) {
  constexpr std::array<std::string_view, 4> kPrefixes = {"OMPI_", "PMIX_", "PMI_", "PRTE_"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](std::string_view prefix) { return variable.starts_with(prefix); });
}

std::vector<char*> clean_environment() {
  std::vector<char*> variables;
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (!is_of_launcher(*variable)) variables.push_back(*variable);
  variables.push_back(nullptr);
  return variables;
}

std::vector<char*> argument_vector(const SpawnOptions& options) {
  std::vector<char*> arguments = {const_cast<char*>(options.program.c_str())};
  for (const std::string& argument : options.arguments)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  return arguments;
}

/// The two objects of posix_spawn. Thread: the thread that made this object.
class SpawnSetup {
 public:
  explicit SpawnSetup(const SpawnOptions& options) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    if (options.input >= 0)
      posix_spawn_file_actions_adddup2(&actions_, options.input, 0);
    else
      posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    if (!options.output.empty()) {
      posix_spawn_file_actions_addopen(&actions_, 1, options.output.c_str(),
                                       O_WRONLY | O_CREAT | O_APPEND, 0600);
      posix_spawn_file_actions_adddup2(&actions_, 1, 2);
    }
    int first_unused = 3;
    for (const auto& [ours, childs] : options.passed)
      first_unused = std::max(first_unused, childs + 1);
    for (const auto& [ours, childs] : options.passed) {
      // Copies get numbers above all of the child's descriptors, so that no dup2 closes a
      // descriptor that is still to be passed.
      high_.emplace_back(::fcntl(ours, F_DUPFD_CLOEXEC, first_unused));
      failure_ = high_.back() ? failure_ : errno;
      posix_spawn_file_actions_adddup2(&actions_, high_.back().get(), childs);
    }
    posix_spawn_file_actions_addclosefrom_np(&actions_, first_unused);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setflags(&attributes_,
                             static_cast<short>(POSIX_SPAWN_SETSIGMASK |
                                                (options.new_session ? POSIX_SPAWN_SETSID : 0)));
  }
  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }
  /// Errno if a descriptor could not be copied; 0 if all were copied.
  int failure() const { return failure_; }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
  std::vector<ScopedFd> high_;
  int failure_ = 0;
};

}  // namespace

Result<pid_t> spawn(const SpawnOptions& options) {
  const SpawnSetup setup(options);
  std::vector<char*> arguments = argument_vector(options);
  std::vector<char*> environment = clean_environment();
  pid_t child = 0;
  int failure = setup.failure();
  if (failure == 0) {
    failure = posix_spawn(&child, options.program.c_str(), setup.actions(), setup.attributes(),
                          arguments.data(), environment.data());
  }
  if (failure != 0) return system_error(options.program + " cannot be started", failure);
  return child;
}

Result<std::pair<ScopedFd, ScopedFd>> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_error("no pipe", errno);
  return std::pair(ScopedFd(ends[0]), ScopedFd(ends[1]));
}

std::string read_until(const ScopedFd& pipe, std::chrono::steady_clock::time_point end) {
  std::string text;
  std::array<char, 4096> chunk{};
  while (true) {
    const auto left = end - std::chrono::steady_clock::now();
    const auto limit = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    pollfd watched{pipe.get(), POLLIN, 0};
    if (limit < 0 || ::poll(&watched, 1, static_cast<int>(limit)) <= 0) return text;
    const ssize_t size = ::read(pipe.get(), chunk.data(), chunk.size());
    if (size <= 0) return text;
    text.append(chunk.data(), static_cast<std::size_t>(size));
  }
}

}  // namespace tt::base

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "src/cli/commands.h"
#include "src/cli/exit_code.h"
#include "src/cli/help_text.h"
#include "src/cli/parse.h"
#include "tensor_tracer/checkpoint/manifest.h"

namespace tt::cli {
namespace {

using Words = std::vector<std::string>;

// The former run's hub may keep the page's port for a moment.
constexpr int kFirstPause = 1, kMaxPause = 30;  // seconds

constexpr const char* kExample = R"(Example:
  tensor-tracer supervise --max-restarts 10 -- mpirun -np 2 tensor-tracer train \
      --data-path my_texts/ --save runs/a/checkpoints --save-interval 100
      a run that fails is repeated with --load runs/a/checkpoints)";

sigset_t watched_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGCHLD, SIGUSR1, SIGTERM, SIGINT}) sigaddset(&signals, signal);
  return signals;
}

// The value of the last `flag VALUE` or `flag=VALUE`; empty: there is no such option.
std::string value_of(const Words& words, const std::string& flag) {
  std::string value;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == flag && i + 1 < words.size()) value = words[i + 1];
    if (words[i].starts_with(flag + "=")) value = words[i].substr(flag.size() + 1);
  }
  return value;
}

Words without(const Words& words, const std::string& flag) {
  Words rest;
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i] == flag)
      ++i;
    else if (!words[i].starts_with(flag + "="))
      rest.push_back(words[i]);
  return rest;
}

// Empty if the folder has no checkpoint.
std::string newest_checkpoint(const std::string& folder) {
  const std::vector<std::string> found = checkpoint::find_checkpoints(folder);
  return found.empty() ? "" : found.front();
}

// The command that goes on from a checkpoint, if there is one.
Words resumed(const Words& words, const std::string& folder, const std::string& newest) {
  if (newest.empty()) return words;
  Words command = without(words, "--load");
  command.insert(command.end(), {"--load", folder});
  return command;
}

// The child is not in the terminal's foreground, so Ctrl-C reaches this process only.
base::Result<pid_t> start(const Words& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  pid_t child = 0;
  const int failure =
      ::posix_spawnp(&child, arguments.front(), &actions, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failure == 0) return child;
  return base::invalid_argument(words.front(),
                                "cannot be started: " + std::generic_category().message(failure));
}

struct Ending {
  int code = 0;
  bool was_told_to_stop = false;
};

// Passes signals on until the child has ended. `request`: the signal that asks it to save and end.
Ending watch(pid_t child, int request) {
  const sigset_t signals = watched_signals();
  Ending ending;
  while (true) {
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child) {
      ending.code = WIFSIGNALED(status) ? kExitSignal + WTERMSIG(status) : WEXITSTATUS(status);
      return ending;
    }
    int signal = 0;
    ::sigwait(&signals, &signal);
    if (signal == SIGCHLD) continue;
    ::kill(child, ending.was_told_to_stop && signal != SIGUSR1 ? SIGTERM : request);
    ending.was_told_to_stop = true;
  }
}

// True: a signal came that ends the run.
bool pause_for(int seconds) {
  sigset_t signals = watched_signals();
  sigdelset(&signals, SIGCHLD);
  const timespec limit{seconds, 0};
  return ::sigtimedwait(&signals, nullptr, &limit) > 0;
}

bool has_torchrun(const Words& words) {
  return std::any_of(
      words.begin(), std::ranges::find(words, "train"),
      [](const std::string& word) {
        return word.ends_with("torchrun") || word == "torch.distributed.run";
      });
}

int supervise(const Words& words, const std::string& folder, std::int64_t max_restarts) {
  // torchrun passes on SIGTERM only, on which its ranks save.
  const int request = has_torchrun(words) ? SIGTERM : SIGUSR1;
  int pause = kFirstPause;
  for (std::int64_t restart = 0;; ++restart) {
    const std::string newest = newest_checkpoint(folder);
    const auto child = start(resumed(words, folder, newest));
    if (!child) return fail(child.error());
    const Ending ending = watch(child.value(), request);
    if (ending.code == kExitDone || ending.code == kExitSaved || ending.was_told_to_stop)
      return ending.code;
    if (restart == 0 && ending.code == kExitUsage) return ending.code;
    if (ending.code == kExitPersistent) {
      fmt::print(stderr, "supervise: the run would fail at the same step again; no restart\n");
      return ending.code;
    }
    if (restart == max_restarts) {
      fmt::print(stderr,
                 "supervise: the run ended with code {} after {} restarts; no more follow\n",
                 ending.code, restart);
      return ending.code;
    }
    if (newest_checkpoint(folder) != newest) pause = kFirstPause;
    fmt::print(stderr, "supervise: the run ended with code {}; restart {} of {} in {} s\n",
               ending.code, restart + 1, max_restarts, pause);
    if (pause_for(pause)) return ending.code;
    pause = std::min(2 * pause, kMaxPause);
  }
}

}  // namespace

int run_supervise(int argc, const char* const* argv) {
  std::int64_t max_restarts = 3;
  Words words;
  CLI::App app("Run a training command, and repeat it from its newest checkpoint if it fails.",
               "tensor-tracer supervise");
  set_help_text(app);
  app.footer(kExample);
  app.add_option("--max-restarts", max_restarts, "restarts after failures (3)")
      ->check(CLI::NonNegativeNumber);
  app.add_option("command", words, "-- and the command, with its launcher")->required();
  auto parsed = parse(app, argc, argv);
  if (!parsed) return fail(parsed.error());
  if (!parsed.value().empty()) {
    fmt::print("{}", parsed.value());
    return kExitDone;
  }
  const std::string folder = value_of(words, "--save");
  if (folder.empty()) {
    return fail(base::invalid_argument("--save", "the command saves no checkpoints to go on from",
                                       "add --save FOLDER and --save-interval STEPS to it, not to "
                                       "a configuration file"));
  }
  if (std::ranges::find(words, "--tensor-tracer-linger") != words.end()) {
    return fail(base::invalid_argument("--tensor-tracer-linger",
                                       "the page of a run that failed would keep the port",
                                       "leave it out"));
  }
  ::signal(SIGCHLD, SIG_DFL);
  const sigset_t signals = watched_signals();
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  return supervise(words, folder, max_restarts);
}

}  // namespace tt::cli

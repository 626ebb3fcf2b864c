#include "src/hub/alarms/command.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <thread>

#include "tensor_tracer/base/scoped_fd.h"
#include "tensor_tracer/base/spawn.h"
#include "tensor_tracer/hub/alarms.h"

namespace tt::hub {
namespace {

constexpr auto kWaitInterval = std::chrono::milliseconds(10);

base::Error command_failed(std::string message) {
  return {.code = "call_failed", .message = std::move(message), .where = "--alarm-command"};
}

bool is_program(const std::string& path) {
  std::error_code ignored;
  return ::access(path.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(path, ignored);
}

}  // namespace

base::Status run_command(const std::vector<std::string>& command, const std::string& input,
                         const std::string& log,
                         const std::function<std::chrono::steady_clock::time_point()>& deadline) {
  // A file in memory: a program that does not read its input blocks nobody.
  const base::ScopedFd file(::memfd_create("alarm", MFD_CLOEXEC));
  if (!file ||
      ::write(file.get(), input.data(), input.size()) != static_cast<ssize_t>(input.size()))
    return command_failed("no memory for the message");
  ::lseek(file.get(), 0, SEEK_SET);
  const auto child = base::spawn({.program = command.front(),
                                  .arguments = {command.begin() + 1, command.end()},
                                  .passed = {},
                                  .input = file.get(),
                                  .output = log,
                                  .new_session = true});
  if (!child) return child.error();
  int status = 0;
  while (::waitpid(child.value(), &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() >= deadline()) {
      ::kill(-child.value(), SIGKILL);
      ::waitpid(child.value(), &status, 0);
      return command_failed("it took too long and was ended");
    }
    std::this_thread::sleep_for(kWaitInterval);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return command_failed(WIFEXITED(status)
                            ? "it ended with exit code " + std::to_string(WEXITSTATUS(status))
                            : "it was ended by signal " + std::to_string(WTERMSIG(status)));
}

base::Result<std::string> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (is_program(name)) return name;
    return base::invalid_argument("--alarm-command", name + " is not a program");
  }
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string program = (folder.empty() ? "." : folder) + "/" + name;
    if (is_program(program)) return program;
  }
  return base::invalid_argument("--alarm-command", "there is no program " + name + " in PATH",
                                "give its path");
}

}  // namespace tt::hub

#include "tensor_tracer/base/thread_stacks.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

namespace tt::base {
namespace {

constexpr int kMaxFrames = 64;
constexpr auto kAnswerTime = std::chrono::milliseconds(200);

// What a signal's handler shares with the thread that asks. A handler has no other way.
std::array<void*, kMaxFrames> frames;
std::atomic<int> asked = 0;    // the thread whose stack is wanted; 0: none
std::atomic<int> answer = -1;  // the number of frames; -1: not yet

int signal_number() { return SIGRTMIN + 5; }
int own_thread() { return static_cast<int>(::syscall(SYS_gettid)); }

void take_stack(int) {
  const int saved = errno;
  int own = own_thread();
  if (asked.compare_exchange_strong(own, 0)) answer = ::backtrace(frames.data(), kMaxFrames);
  errno = saved;
}

// The number of frames; -1: the thread does not answer.
int ask(int thread) {
  answer = -1;
  if (thread == own_thread()) return ::backtrace(frames.data(), kMaxFrames);
  asked = thread;
  ::syscall(SYS_tgkill, ::getpid(), thread, signal_number());
  const auto end = std::chrono::steady_clock::now() + kAnswerTime;
  while (answer < 0) {
    int same = thread;
    if (std::chrono::steady_clock::now() > end && asked.compare_exchange_strong(same, 0)) return -1;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return answer;
}

std::string readable(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(symbol, nullptr, nullptr, &status), std::free);
  return status == 0 ? name.get() : symbol;
}

std::string describe_frame(int number, void* address) {
  Dl_info info{};
  if (::dladdr(address, &info) == 0) return fmt::format("  #{:<2} {}\n", number, address);
  const auto offset = [&](const void* base) {
    return static_cast<const char*>(address) - static_cast<const char*>(base);
  };
  const std::string file = std::filesystem::path(info.dli_fname).filename().string();
  const std::string name =
      info.dli_sname != nullptr
          ? fmt::format("{} + {:#x}", readable(info.dli_sname), offset(info.dli_saddr))
          : std::string("?");
  return fmt::format("  #{:<2} {}  ({} + {:#x})\n", number, name, file, offset(info.dli_fbase));
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<int> threads() {
  std::vector<int> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", ignored))
    found.push_back(std::atoi(entry.path().filename().c_str()));
  std::ranges::sort(found);
  return found;
}

}  // namespace

void prepare_thread_stacks() {
  // The first call loads a library, which a handler must not do.
  (void)::backtrace(frames.data(), 1);
  struct sigaction action {};
  action.sa_handler = take_stack;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  ::sigaction(signal_number(), &action, nullptr);
}

std::string thread_stacks() {
  std::string text;
  for (const int thread : threads()) {
    const std::string task = fmt::format("/proc/self/task/{}/", thread);
    const std::string waits_in = first_line(task + "wchan");
    text += fmt::format("thread {} ({}){}\n", thread, first_line(task + "comm"),
                        waits_in.empty() || waits_in == "0" ? "" : ", in the kernel: " + waits_in);
    const int count = ask(thread);
    if (count < 0) text += "  does not answer\n";
    for (int i = 0; i < count; ++i) text += describe_frame(i, frames[static_cast<std::size_t>(i)]);
  }
  return text;
}

}  // namespace tt::base

#include "src/link/log.h"

#include <array>
#include <ctime>
#include <iostream>

namespace tt::link {
namespace {

constexpr std::array kNames = {"info", "warning", "error"};

std::string local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  std::array<char, 32> text{};
  return {text.data(),
          std::strftime(text.data(), text.size(), "%F %T", ::localtime_r(&now, &parts))};
}

}  // namespace

void log(LogLevel level, const std::string& message) {
  std::cerr << "[" + local_time() + "] [link] [" + kNames[static_cast<std::size_t>(level)] + "] " +
                   message + "\n";
}

}  // namespace tt::link

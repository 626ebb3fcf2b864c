#include "src/link/log.h"

#include <spdlog/sinks/stdout_sinks.h>

namespace tt::link {

spdlog::logger& log() {
  static spdlog::logger logger("link", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  return logger;
}

}  // namespace tt::link

#include "tensor_tracer/link/hub_process.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "tensor_tracer/base/private_file.h"
#include "tensor_tracer/base/spawn.h"
#include "tensor_tracer/protocol/message.h"

namespace tt::link {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kStartTimeout = std::chrono::seconds(12);
constexpr int kAliveInChild = 3;
constexpr int kReadyInChild = 4;
constexpr std::size_t kMaxLine = 4096;

base::Error failed(const std::string& run_dir) {
  return {.code = "hub_failed",
          .message = "the hub did not start",
          .where = "tensor-tracer-hub",
          .remedy = "see " + run_dir + "/hub.log"};
}

std::string hub_program(const HubStart& start) {
  if (!start.program.empty()) {
    return start.program;
  }
  std::error_code failure;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", failure);
  return (own.parent_path() / "tensor-tracer-hub").string();
}

std::vector<std::string> arguments_of(const HubStart& start) {
  std::vector<std::string> arguments = {"supervise",
                                        "--run-dir",
                                        start.run_dir,
                                        "--port",
                                        std::to_string(start.port),
                                        "--alive-fd",
                                        std::to_string(kAliveInChild),
                                        "--ready-fd",
                                        std::to_string(kReadyInChild),
                                        "--lease-seconds",
                                        std::to_string(start.lease_seconds)};
  if (!start.run_id.empty()) {
    arguments.insert(arguments.end(), {"--run-id", start.run_id});
  }
  if (!start.page_dir.empty()) {
    arguments.insert(arguments.end(), {"--page-dir", start.page_dir});
  }
  if (!start.viewers_need_token) {
    arguments.insert(arguments.end(), {"--auth", "none"});
  }
  for (const std::string& origin : start.allow_origins) {
    arguments.insert(arguments.end(), {"--allow-origin", origin});
  }
  if (start.linger) {
    arguments.emplace_back("--linger");
  }
  arguments.insert(arguments.end(), start.flags.begin(), start.flags.end());
  return arguments;
}

// One line, or what came before the end of file or the deadline.
std::string read_line(const base::ScopedFd& ready) {
  const auto end = Clock::now() + kStartTimeout;
  std::string line;
  while (line.size() < kMaxLine && (line.empty() || line.back() != '\n')) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd watched{ready.get(), POLLIN, 0};
    char byte = 0;
    if (left <= 0 || ::poll(&watched, 1, static_cast<int>(left)) <= 0 ||
        ::read(ready.get(), &byte, 1) != 1) {
      break;
    }
    line += byte;
  }
  return line;
}

// The hub names its own flags; who started it has others.
base::Error as_trainer_says(base::Error error) {
  if (error.where == "--port") {
    error.where = "--tensor-tracer-port";
    error.remedy = "give --tensor-tracer-port 0 or another port";
  } else if (error.where == "--allow-origin") {
    error.where = "--tensor-tracer-allow-origin";
  }
  return error;
}

base::Result<int> read_port(const base::ScopedFd& ready, const HubStart& start) {
  const auto line = protocol::parse_json(read_line(ready));
  if (!line || !line.value().is_object()) {
    return failed(start.run_dir);
  }
  const nlohmann::json& said = line.value();
  if (said.contains("port") && said.at("port").is_number_integer()) {
    return said.at("port").get<int>();
  }
  if (!said.contains("error") || !said.at("error").is_object()) {
    return failed(start.run_dir);
  }
  const nlohmann::json& error = said.at("error");
  base::Error told{.code = error.value("code", ""),
                   .message = error.value("message", ""),
                   .where = error.value("where", ""),
                   .remedy = error.value("remedy", "")};
  return as_trainer_says(std::move(told));
}

// The token is hex digits: nothing in it needs escaping.
std::string redirect_page(const std::string& page_url) {
  return "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">"
         "<title>Tensor Tracer</title><meta http-equiv=\"refresh\" content=\"0;url=" +
         page_url + "\"><a href=\"" + page_url + "\">Tensor Tracer</a>\n";
}

struct Secrets {
  std::string token;
  std::string worker_token;
};

base::Result<Secrets> prepare_run_dir(const std::string& run_dir) {
  std::error_code failure;
  // A directory that is there keeps its mode: others may share it on purpose.
  if (std::filesystem::create_directories(run_dir, failure)) {
    std::filesystem::permissions(run_dir, std::filesystem::perms::owner_all, failure);
  }
  if (failure) {
    return base::Error{.code = "io_error",
                       .message = "cannot be made: " + failure.message(),
                       .where = run_dir,
                       .remedy = {}};
  }
  auto token = base::read_or_make_secret(run_dir + "/token");
  auto worker_token = base::read_or_make_secret(run_dir + "/worker_token");
  if (!token || !worker_token) {
    return token.ok() ? worker_token.error() : token.error();
  }
  return Secrets{token.value(), worker_token.value()};
}

base::Result<HubInfo> start_prepared(const HubStart& start, const Secrets& secrets) {
  auto alive = base::make_pipe();
  auto ready = base::make_pipe();
  if (!alive || !ready) {
    return alive.ok() ? ready.error() : alive.error();
  }
  auto& [alive_read, alive_write] = alive.value();
  auto& [ready_read, ready_write] = ready.value();
  const auto child = base::spawn(
      {.program = hub_program(start),
       .arguments = arguments_of(start),
       .passed = {{alive_read.get(), kAliveInChild}, {ready_write.get(), kReadyInChild}},
       .output = start.run_dir + "/hub.log",
       .new_session = true});
  if (!child) {
    return child.error();
  }
  ready_write.reset();
  const auto port = read_port(ready_read, start);
  if (!port) {
    return port.error();
  }
  HubInfo info{.url = "http://127.0.0.1:" + std::to_string(port.value()) + "/",
               .page_url = {},
               .port = port.value(),
               .run_dir = start.run_dir,
               .token_path = start.run_dir + "/token",
               .open_path = start.run_dir + "/open.html",
               .worker_token = secrets.worker_token,
               .alive = std::move(alive_write)};
  info.page_url = start.viewers_need_token ? info.url + "#token=" + secrets.token : info.url;
  return info;
}

}  // namespace

base::Result<HubInfo> start_hub(const HubStart& start) {
  const auto secrets = prepare_run_dir(start.run_dir);
  if (!secrets) {
    return secrets.error();
  }
  base::Result<HubInfo> info = start_prepared(start, secrets.value());
  if (!info) {
    return info;
  }
  const HubInfo& started = info.value();
  if (base::Status written =
          base::write_private_file(started.open_path, redirect_page(started.page_url));
      !written.ok()) {
    return written.error();
  }
  return info;
}

}  // namespace tt::link

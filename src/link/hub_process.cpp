#include "tensor_tracer/link/hub_process.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "tensor_tracer/base/private_file.h"
#include "tensor_tracer/base/run_dir_lock.h"
#include "tensor_tracer/base/spawn.h"
#include "tensor_tracer/protocol/json_members.h"
#include "tensor_tracer/protocol/message.h"

namespace tt::link {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kStartTimeout = std::chrono::seconds(12);
constexpr int kAliveInChild = 3;
constexpr int kReadyInChild = 4;
constexpr int kLockInChild = 5;

base::Error failed(const std::string& run_dir) {
  return {.code = "hub_failed",
          .message = "the hub did not start",
          .where = "tensor-tracer-hub",
          .remedy = "see " + run_dir + "/hub.log"};
}

std::string hub_program(const HubStart& start) {
  if (!start.program.empty()) return start.program;
  std::error_code failure;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", failure);
  return (own.parent_path() / "tensor-tracer-hub").string();
}

// The hub's error names a flag of the hub; the trainer that started the hub has other flags.
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
  const std::string said = base::read_until(ready, Clock::now() + kStartTimeout);
  const protocol::Message message = protocol::parse_message(said);
  if (const auto* answer = std::get_if<protocol::Answer>(&message)) {
    const auto* error = std::get_if<base::Error>(&answer->outcome);
    return error != nullptr ? as_trainer_says(*error) : failed(start.run_dir);
  }
  const auto object = protocol::parse_json(said);
  const auto port = object.ok() ? protocol::natural(object.value(), "port") : std::nullopt;
  return port ? base::Result<int>(static_cast<int>(*port)) : failed(start.run_dir);
}

// The token consists of hex digits: nothing in it needs escaping.
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
  // An existing directory keeps its mode: other users may share it on purpose.
  if (std::filesystem::create_directories(run_dir, failure))
    std::filesystem::permissions(run_dir, std::filesystem::perms::owner_all, failure);
  if (failure) {
    return base::Error{
        .code = "io_error", .message = "cannot be made: " + failure.message(), .where = run_dir};
  }
  auto token = base::read_or_make_secret(run_dir + "/token");
  auto worker_token = base::read_or_make_secret(run_dir + "/worker_token");
  if (!token || !worker_token) return token.ok() ? worker_token.error() : token.error();
  return Secrets{token.value(), worker_token.value()};
}

// Takes the lock before the run's settings are written, so that a live run in the directory keeps
// its settings.
base::Result<base::ScopedFd> claim_run_dir(const HubStart& start) {
  auto lock = base::lock_run_dir(start.run_dir);
  if (lock.ok()) {
    const base::Status written = config::write_run_file(start.run_dir, start.config);
    return written.ok() ? std::move(lock) : written.error();
  }
  return lock;
}

base::Result<HubInfo> start_prepared(const HubStart& start, const Secrets& secrets,
                                     const base::ScopedFd& lock) {
  auto alive = base::make_pipe();
  auto ready = base::make_pipe();
  if (!alive || !ready) return alive.ok() ? ready.error() : alive.error();
  auto& [alive_read, alive_write] = alive.value();
  auto& [ready_read, ready_write] = ready.value();
  const auto child = base::spawn(
      {.program = hub_program(start),
       .arguments = {"supervise", "--run-dir", start.run_dir, "--alive-fd",
                     std::to_string(kAliveInChild), "--ready-fd", std::to_string(kReadyInChild)},
       .passed = {{alive_read.get(), kAliveInChild},
                  {ready_write.get(), kReadyInChild},
                  {lock.get(), kLockInChild}},
       .output = start.run_dir + "/hub.log",
       .new_session = true});
  if (!child) return child.error();
  base::write_lock_holder(lock, child.value());
  ready_write.reset();
  const auto port = read_port(ready_read, start);
  if (!port) return port.error();
  HubInfo info{.url = "http://127.0.0.1:" + std::to_string(port.value()) + "/",
               .page_url = {},
               .port = port.value(),
               .pid = child.value(),
               .token_path = start.run_dir + "/token",
               .open_path = start.run_dir + "/open.html",
               .worker_token = secrets.worker_token,
               .alive = std::move(alive_write)};
  info.page_url = start.config.auth == "token" ? info.url + "#token=" + secrets.token : info.url;
  return info;
}

}  // namespace

base::Result<HubInfo> start_hub(const HubStart& start) {
  const auto secrets = prepare_run_dir(start.run_dir);
  if (!secrets) return secrets.error();
  const auto lock = claim_run_dir(start);
  if (!lock) return lock.error();
  base::Result<HubInfo> info = start_prepared(start, secrets.value(), lock.value());
  if (!info) return info;
  const HubInfo& started = info.value();
  if (base::Status written =
          base::write_private_file(started.open_path, redirect_page(started.page_url));
      !written.ok())
    return written.error();
  return info;
}

}  // namespace tt::link

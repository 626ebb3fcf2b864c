#include "src/cli/hub_session.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spawn.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <utility>

#include "tensor_tracer/base/private_file.h"
#include "tensor_tracer/base/ssh_command.h"

namespace tt::cli {
namespace {

// Shows the page in the user's browser. If there is no browser, the user has the printed address.
void open_in_browser(const std::string& page) {
  std::string program = "xdg-open";
  std::string argument = page;
  char* const words[] = {program.data(), argument.data(), nullptr};
  pid_t child = 0;
  ::posix_spawnp(&child, program.c_str(), nullptr, nullptr, words, environ);
}

config::HubConfig hub_config(const config::TrainConfig& config, const std::string& run_id) {
  const config::TracerConfig& tracer = config.tracer;
  config::HubConfig hub;
  hub.run_id = run_id;
  hub.port = tracer.tensor_tracer_port.value_or(0);
  hub.auth = tracer.tensor_tracer_auth;
  hub.allow_origin = tracer.tensor_tracer_allow_origin;
  hub.compare = tracer.tensor_tracer_compare;
  hub.lease_seconds = tracer.tensor_tracer_pause_timeout;
  hub.ready_timeout = tracer.tensor_tracer_ready_timeout;
  hub.linger = tracer.tensor_tracer_linger;
  hub.recording = config.recording;
  hub.alarm = config.alarm;
  return hub;
}

}  // namespace

base::Result<HubSession> HubSession::start(const config::TrainConfig& config) {
  HubSession session;
  session.id_ = base::random_hex(8);
  session.name_ = config.run_name.empty() ? session.id_ : config.run_name;
  session.record_dir_ = config.recording.record;
  session.start_time_ = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  session.pause_timeout_ = std::chrono::milliseconds(
      static_cast<std::int64_t>(config.tracer.tensor_tracer_pause_timeout * 1e3));
  auto hub =
      link::start_hub({.program = {},
                       .run_dir = config.run_dir.empty() ? "runs/" + session.id_ : config.run_dir,
                       .config = hub_config(config, session.id_)});
  if (!hub) return hub.error();
  session.hub_ = std::move(hub).value();
  if (config.tracer.tensor_tracer_open) open_in_browser(session.hub_.open_path);
  return session;
}

nlohmann::json HubSession::facts() const {
  return {{"id", id_},
          {"name", name_},
          {"start_time", start_time_},
          {"host", base::whereabouts().host}};
}

void HubSession::connect(nlohmann::json facts, link::HubClientOptions::Check check) {
  link::HubClientOptions options;
  options.port = hub_.port;
  options.worker_token = hub_.worker_token;
  options.run = std::move(facts);
  options.check = std::move(check);
  options.pause_timeout = pause_timeout_;
  client_ = std::make_unique<link::HubClient>(std::move(options));
}

// The hub chooses the second name if another run's recording has the first.
std::string HubSession::recording() const {
  if (record_dir_.empty()) return "";
  const std::string second = record_dir_ + "/run-" + id_ + ".ttrec";
  return std::filesystem::exists(second) ? second : record_dir_ + "/run.ttrec";
}

void HubSession::finish() {
  if (client_) client_->finish();
}

}  // namespace tt::cli

#include "tensor_tracer/control/hub_session.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spawn.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <utility>

#include "tensor_tracer/base/private_file.h"
#include "tensor_tracer/base/ssh_command.h"

namespace tt::control {
namespace {

// Shows the page in the user's browser. If there is no browser, the user has the printed address,
// and not the names of the seven browsers that xdg-open has looked for.
void open_in_browser(const std::string& page) {
  std::string program = "xdg-open";
  std::string argument = page;
  char* const words[] = {program.data(), argument.data(), nullptr};
  posix_spawn_file_actions_t quiet;
  ::posix_spawn_file_actions_init(&quiet);
  for (const int output : {STDOUT_FILENO, STDERR_FILENO})
    ::posix_spawn_file_actions_addopen(&quiet, output, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  ::posix_spawnp(&child, program.c_str(), &quiet, nullptr, words, environ);
  ::posix_spawn_file_actions_destroy(&quiet);
}

}  // namespace

base::Result<HubSession> HubSession::start(HubSessionOptions options) {
  HubSession session;
  config::HubConfig& hub = options.hub;
  session.id_ = base::random_hex(8);
  hub.run_id = session.id_;
  session.name_ = options.run_name.empty() ? session.id_ : options.run_name;
  const std::string run_dir = options.run_dir.empty() ? "runs/" + session.id_ : options.run_dir;
  // Another program reads run.json, perhaps in another folder.
  if (!hub.recording.record.empty())
    hub.recording.record = std::filesystem::absolute(hub.recording.record).string();
  session.record_dir_ = hub.recording.record.empty() ? run_dir : hub.recording.record;
  session.hub_takes_traced_ =
      hub.recording.takes_traced() || !hub.alarm.alarms.empty() || hub.alarm.spike_recorder > 0;
  session.start_time_ = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  session.pause_timeout_ =
      std::chrono::milliseconds(static_cast<std::int64_t>(hub.lease_seconds * 1e3));
  auto started = link::start_hub(
      {.program = options.hub_program, .run_dir = run_dir, .config = std::move(hub)});
  if (!started) return started.error();
  session.hub_ = std::move(started).value();
  if (options.opens_browser) open_in_browser(session.hub_.open_path);
  return session;
}

nlohmann::json HubSession::facts() const {
  return {{"id", id_},
          {"name", name_},
          {"start_time", start_time_},
          {"host", base::whereabouts().host}};
}

void HubSession::connect(nlohmann::json facts, link::HubClientOptions::Check check, int stages) {
  link::HubClientOptions options;
  options.port = hub_.port;
  options.worker_token = hub_.worker_token;
  options.run = std::move(facts);
  options.stages = static_cast<std::uint64_t>(stages);
  options.check = std::move(check);
  options.is_wanted = hub_takes_traced_;
  options.pause_timeout = pause_timeout_;
  client_ = std::make_unique<link::HubClient>(std::move(options));
}

// The hub chooses the second name if another run's recording has the first.
std::string HubSession::recording() const {
  for (const std::string& name : {"run-" + id_ + ".ttrec", std::string("run.ttrec")}) {
    const std::string path = record_dir_ + "/" + name;
    if (std::filesystem::exists(path)) return path;
  }
  return "";
}

void HubSession::finish() {
  if (client_) client_->finish();
}

}  // namespace tt::control

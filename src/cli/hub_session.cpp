#include "src/cli/hub_session.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spawn.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <utility>

#include "src/cli/size_text.h"
#include "tensor_tracer/base/private_file.h"
#include "tensor_tracer/base/ssh_command.h"
#include "tensor_tracer/record/run_catalog.h"

namespace tt::cli {
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
  // Another program reads run.json, perhaps in another folder.
  if (!hub.recording.record.empty())
    hub.recording.record = std::filesystem::absolute(hub.recording.record).string();
  return hub;
}

constexpr std::uint64_t kMaxBytes = std::uint64_t{10} << 30U;
constexpr std::size_t kMaxNamed = 5;

// Nothing is removed without a command.
std::string name_excess(const std::string& run_dir) try {
  const std::string folder = std::filesystem::absolute(run_dir).parent_path().string();
  const record::Excess excess = record::find_excess(folder, kMaxBytes, kMaxNamed);
  if (excess.bytes == 0) return "";
  std::string text = fmt::format("the runs in {} have {}", folder, size_text(excess.bytes));
  std::string ids;
  for (const record::CatalogRun& run : excess.runs) {
    text += fmt::format("{} {} ({}, {})", ids.empty() ? "; the largest that are not kept:" : ",",
                        run.id, run.name, size_text(run.bytes));
    ids += " " + run.id;
  }
  if (ids.empty()) return text;
  return text +
         fmt::format("; to remove them: tensor-tracer runs --runs-dir {} remove{}", folder, ids);
} catch (const std::exception&) {
  return "";  // the folder cannot be read
}

}  // namespace

base::Result<HubSession> HubSession::start(const config::TrainConfig& config) {
  HubSession session;
  session.id_ = base::random_hex(8);
  session.name_ = config.run_name.empty() ? session.id_ : config.run_name;
  const std::string run_dir = config.run_dir.empty() ? "runs/" + session.id_ : config.run_dir;
  session.record_dir_ = config.recording.record.empty() ? run_dir : config.recording.record;
  session.hub_takes_traced_ = config.recording.takes_traced() || !config.alarm.alarms.empty() ||
                              config.alarm.spike_recorder > 0;
  session.start_time_ = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  session.pause_timeout_ = std::chrono::milliseconds(
      static_cast<std::int64_t>(config.tracer.tensor_tracer_pause_timeout * 1e3));
  session.notice_ = name_excess(run_dir);
  auto hub = link::start_hub(
      {.program = {}, .run_dir = run_dir, .config = hub_config(config, session.id_)});
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

}  // namespace tt::cli

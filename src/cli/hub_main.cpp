#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "src/cli/exit_code.h"
#include "src/cli/help_text.h"
#include "src/cli/options.h"
#include "src/cli/parse.h"
#include "src/cli/recorder_options.h"
#include "src/cli/runs_command.h"
#include "tensor_tracer/base/private_file.h"
#include "tensor_tracer/base/run_dir_lock.h"
#include "tensor_tracer/base/ssh_command.h"
#include "tensor_tracer/base/thread.h"
#include "tensor_tracer/config/hub_config.h"
#include "tensor_tracer/hub/alarms.h"
#include "tensor_tracer/hub/event_log.h"
#include "tensor_tracer/hub/server.h"
#include "tensor_tracer/hub/supervisor.h"
#include "tensor_tracer/protocol/json_members.h"
#include "tensor_tracer/protocol/message.h"
#include "tensor_tracer/record/recording.h"

namespace {

namespace fs = std::filesystem;
using tt::base::Result;
using tt::base::Status;

/// The flags of the commands serve, supervise and replay.
struct HubFlags {
  std::string run_dir;
  tt::config::HubConfig config;
  tt::hub::ReplayOptions replay;  // of the command replay
  bool is_supervisor = false;
  std::vector<int> listen_fds;  // for a supervisor's hub; empty: the hub opens its listeners
  bool restarted = false;       // the run has had a hub before
  int ready_fd = -1;
  int alive_fd = -1;

  /// If false, the settings come from flags.
  bool has_run_file() const { return is_supervisor || !listen_fds.empty(); }
};

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(seconds));
}

std::string own_path() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

/// That of the package tensor-tracer-torch, or of the checkout that has the build folder.
std::string default_page_dir() {
  const fs::path folder = fs::path(own_path()).parent_path();
  const fs::path packaged = (folder / "../page").lexically_normal();
  if (fs::exists(packaged)) return packaged.string();
  return (folder / "../../../frontend/dist").lexically_normal().string();
}

// Only the owner can read the run's log: it names sessions and their actions.
void open_log(const HubFlags& flags) {
  const std::string path = flags.run_dir + "/hub.log";
  auto file = std::make_shared<spdlog::sinks::basic_file_sink_st>(path);
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "hub", tt::hub::make_event_sink(std::move(file),
                                      flags.config.log_format == "json" ? tt::hub::LogFormat::kJson
                                                                        : tt::hub::LogFormat::kText,
                                      flags.config.run_id)));
  spdlog::flush_on(spdlog::level::info);
  std::filesystem::permissions(
      path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

std::string known_run_id(const std::string& run_dir) {
  const auto text = tt::base::read_small_file(run_dir + "/hub.json");
  const auto known = text.ok() ? tt::protocol::parse_json(text.value()) : text.error();
  const std::string id = known.ok() ? tt::protocol::text_of(known.value(), "run_id") : "";
  return id.empty() ? tt::base::random_hex(8) : id;
}

std::string url_of(int port) { return "http://127.0.0.1:" + std::to_string(port) + "/"; }

Status write_hub_json(const HubFlags& flags, int port) {
  const nlohmann::json facts = {{"run_id", flags.config.run_id},
                                {"url", url_of(port)},
                                {"port", port},
                                {"pid", ::getpid()},
                                {"host", tt::base::whereabouts().host}};
  return tt::base::write_private_file(flags.run_dir + "/hub.json", facts.dump(2) + "\n");
}

void warn_of_open_address(const HubFlags& flags, int port) {
  const tt::base::Whereabouts here = tt::base::whereabouts();
  const std::string text = "--bind " + flags.config.bind +
                           ": data and tokens on this address are not encrypted; safer without it: "
                           "ssh -L " +
                           std::to_string(port) + ":127.0.0.1:" + std::to_string(port) + " " +
                           here.host;
  spdlog::warn("unencrypted: {}", text);
  if (flags.listen_fds.empty())
    std::fprintf(stderr, "tensor-tracer-hub: warning: %s\n", text.c_str());
}

// Standard output that is not a terminal may be a log that other users read, so no token goes
// there.
std::string address_to_print(const HubFlags& flags, const std::string& token, int port) {
  const std::string url = url_of(port);
  if (flags.config.auth == "none") return url;
  return flags.config.print_url.value_or(::isatty(STDOUT_FILENO) == 1)
             ? url + "#token=" + token
             : url + " (token in " + flags.run_dir + "/token)";
}

// Call this after the files are written: a program that waits for this line reads them next.
void notify_ready(const HubFlags& flags, const std::string& token, int port,
                  tt::base::ScopedFd& ready) {
  spdlog::info("serving: port {} of loopback, process {}", port, ::getpid());
  if (!tt::hub::is_loopback(flags.config.bind)) warn_of_open_address(flags, port);
  if (ready) {
    if (::write(ready.get(), "1", 1) != 1)
      spdlog::warn("ready: the program that waited for the hub has ended");
    ready.reset();
  }
  if (!flags.listen_fds.empty()) return;
  std::printf("%s\n", address_to_print(flags, token, port).c_str());
  const std::string ssh = tt::base::ssh_command(tt::base::whereabouts(), port);
  if (!ssh.empty()) std::printf("from your own machine: %s\n", ssh.c_str());
  std::fflush(stdout);
}

Result<std::vector<tt::base::ScopedFd>> listeners_of(const HubFlags& flags) {
  if (flags.listen_fds.empty())
    return tt::hub::open_listeners(flags.config.bind, flags.config.port);
  std::vector<tt::base::ScopedFd> listeners;
  for (const int fd : flags.listen_fds) listeners.emplace_back(fd);
  return listeners;
}

// Selects the source of records: a recording to write, or a recording to show.
Status choose_source(const HubFlags& flags, tt::hub::ServerOptions& options) {
  options.compare = flags.config.compare;
  if (!flags.replay.path.empty()) {
    options.replay = flags.replay;
    const fs::path run_dir = fs::canonical(flags.replay.path).parent_path();
    options.runs_dir = fs::exists(run_dir / "hub.json") ? run_dir.parent_path().string() : "";
    return {};
  }
  options.runs_dir = fs::canonical(flags.run_dir).parent_path().string();
  if (Status made = tt::cli::make_record_dir(flags.config); !made.ok() && !flags.restarted)
    return made;
  options.recorder = tt::cli::recorder_options(flags.config, flags.run_dir);
  return {};
}

// The alarms that a run begins with, and the calls that they make.
Status choose_alarms(const HubFlags& flags, tt::hub::ServerOptions& options) {
  const tt::config::AlarmConfig& config = flags.config.alarm;
  options.alarms = {.path = flags.run_dir + "/alarms.json",
                    .pause = milliseconds(config.alarm_pause_timeout),
                    .command = config.alarm_command,
                    .spike_steps = config.spike_recorder,
                    .spike_folder = flags.run_dir,
                    .command_log = flags.run_dir + "/alarm_command.log"};
  if (!config.alarms.empty()) {
    auto alarms = tt::hub::read_alarms(config.alarms);
    if (!alarms && !flags.restarted) return alarms.error();
    if (alarms) options.alarms.initial = std::move(alarms).value();
  }
  if (!config.alarm_webhook.empty()) {
    const auto url = tt::hub::parse_webhook(config.alarm_webhook);
    if (!url) return url.error();
    options.alarms.webhook = url.value();
  }
  if (!config.alarm_command.empty()) {
    const auto program = tt::hub::find_program(config.alarm_command.front());
    if (!program && !flags.restarted) return program.error();
    if (program) options.alarms.command.front() = program.value();
  }
  return {};
}

tt::hub::Access access_of(const tt::config::HubConfig& config) {
  return {.bind = config.bind,
          .viewers_need_token = config.auth == "token",
          .hosts = config.allow_host,
          .origins = config.allow_origin};
}

Status read_tokens(const HubFlags& flags, tt::hub::ServerOptions& options) {
  for (const auto& [name, secret] :
       {std::pair("/token", &options.token), std::pair("/viewer_token", &options.viewer_token),
        std::pair("/worker_token", &options.worker_token)}) {
    auto text = tt::base::read_or_make_secret(flags.run_dir + name);
    if (!text) return text.error();
    *secret = std::move(text).value();
  }
  return {};
}

// Once the hub serves, reports this on `ready` and closes `ready`.
Status serve(const HubFlags& flags, tt::base::ScopedFd& ready) {
  if (!flags.listen_fds.empty())
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // the hub ends with its supervisor
  tt::hub::ServerOptions options;
  const tt::config::HubConfig& config = flags.config;
  options.run_id = config.run_id;
  options.page_dir = config.page_dir.empty() ? default_page_dir() : config.page_dir;
  options.lease = milliseconds(config.lease_seconds);
  options.idle_timeout = milliseconds(config.idle_seconds);
  options.ready_timeout = milliseconds(config.ready_timeout);
  options.access = access_of(config);
  options.access.hosts = allowed_hosts(options.access, tt::base::whereabouts().host);
  if (Status read = read_tokens(flags, options); !read.ok()) return read;
  auto listeners = listeners_of(flags);
  const auto port = listeners ? tt::hub::port_of(listeners.value().front()) : listeners.error();
  if (!port) return port.error();
  if (Status written = write_hub_json(flags, port.value()); !written.ok()) {
    if (!flags.restarted) return written;
    options.failures.push_back(written.error());
  }
  for (Status chosen : {choose_source(flags, options), choose_alarms(flags, options)})
    if (!chosen.ok()) return chosen;
  options.needs_recorder = !flags.restarted && !config.recording.record.empty();
  return tt::hub::serve(std::move(listeners).value(), options,
                        [&] { notify_ready(flags, options.token, port.value(), ready); });
}

Status supervise(const HubFlags& flags, tt::base::ScopedFd& ready) {
  return tt::hub::supervise({.program = own_path(),
                             .run_dir = flags.run_dir,
                             .bind = flags.config.bind,
                             .port = flags.config.port,
                             .linger = flags.config.linger,
                             .alive = tt::base::ScopedFd(flags.alive_fd),
                             .ready = std::move(ready)});
}

// A program that waits for the hub to be ready gets the error; if there is no such program, the
// error is printed.
int refuse(const tt::base::ScopedFd& ready, bool has_program, const tt::base::Error& error) {
  if (!has_program)
    std::fprintf(stderr, "tensor-tracer-hub: %s\n", tt::base::to_string(error).c_str());
  tt::hub::notify_failure(ready, error);
  return tt::cli::exit_code(error);
}

// A replay has no run directory; its temporary folder is removed at the end.
int replay(HubFlags& flags, const std::function<int()>& run_it) {
  std::string folder = (std::filesystem::temp_directory_path() / "tensor-tracer-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) {
    std::fprintf(stderr, "tensor-tracer-hub: %s cannot be made\n", folder.c_str());
    return tt::cli::kExitFailure;
  }
  flags.run_dir = folder;
  const int code = run_it();
  std::filesystem::remove_all(folder);
  return code;
}

Status read_run_file(const std::string& path, tt::config::HubConfig& config) {
  CLI::App app;
  tt::cli::add_configuration_file(app);
  tt::cli::add_options(app, tt::config::run_file_options(config));
  const char* const words[] = {"", "--config", path.c_str()};
  const auto parsed = tt::cli::parse(app, 3, words);
  return parsed.ok() ? Status() : parsed.error();
}

// Reads the settings from run.json if there is one, then checks each setting and all together.
Status complete(HubFlags& flags) {
  const std::string path = tt::config::run_file_path(flags.run_dir);
  Status status = flags.has_run_file() ? read_run_file(path, flags.config) : Status();
  if (status.ok()) status = tt::config::check(tt::config::run_file_options(flags.config));
  if (!status.ok() && flags.has_run_file()) {
    const tt::base::Error& error = status.error();
    const std::string key = error.where.starts_with("--") ? error.where + ": " : "";
    return tt::base::invalid_argument(path, key + error.message,
                                      "start the run again: the trainer writes this file");
  }
  return status.ok() ? check(access_of(flags.config)) : status;
}

int run(HubFlags& flags) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit counts as a full disk, so the hub goes on
  std::signal(SIGPIPE, SIG_IGN);  // the program that waits for the hub may have ended
  std::signal(SIGUSR1, SIG_IGN);  // Slurm sends it to all processes; it is for the trainer
  tt::base::ScopedFd ready(flags.ready_fd);
  const bool has_program = flags.ready_fd >= 0;
  if (Status completed = complete(flags); !completed.ok()) {
    if (flags.has_run_file()) {
      open_log(flags);
      spdlog::error("failed: {}", tt::base::to_string(completed.error()));
    }
    return refuse(ready, has_program, completed.error());
  }
  tt::base::reset_affinity();
  // If there is a run file, the trainer has locked the directory and the supervisor keeps it
  // locked.
  const auto lock = flags.has_run_file() ? Result<tt::base::ScopedFd>(tt::base::ScopedFd())
                                         : tt::base::lock_run_dir(flags.run_dir);
  if (!lock) return refuse(ready, has_program, lock.error());
  if (flags.config.run_id.empty()) flags.config.run_id = known_run_id(flags.run_dir);
  open_log(flags);
  const Status status = flags.is_supervisor ? supervise(flags, ready) : serve(flags, ready);
  if (status.ok()) return tt::cli::kExitDone;
  spdlog::error("failed: {}", tt::base::to_string(status.error()));
  return refuse(ready, has_program, status.error());
}

void add_run_dir(CLI::App& command, HubFlags& flags) {
  command
      .add_option("--run-dir", flags.run_dir,
                  "directory of the run, with tokens, hub.json and hub.log")
      ->required()
      ->type_name("FOLDER")
      ->check(CLI::Validator(CLI::ExistingDirectory).description(""));
  command.add_option("--ready-fd", flags.ready_fd, "file descriptor to which the ready hub writes");
}

void add_serve(CLI::App& command, HubFlags& flags) {
  add_run_dir(command, flags);
  tt::cli::add_options(command, tt::config::viewer_options(flags.config));
  tt::cli::add_options(command, tt::config::run_options(flags.config));
  command.add_option(
      "--listen-fd", flags.listen_fds,
      "open listening socket from the supervisor; the settings are those of run.json");
  command.add_flag("--restarted", flags.restarted,
                   "the run had a hub before: serve even if files cannot be written");
}

void add_supervise(CLI::App& command, HubFlags& flags) {
  add_run_dir(command, flags);
  command
      .add_option("--alive-fd", flags.alive_fd,
                  "file descriptor whose end of file is the end of the run")
      ->required();
}

void add_replay(CLI::App& command, HubFlags& flags) {
  tt::cli::add_options(command, tt::config::viewer_options(flags.config));
  command.add_option("file", flags.replay.path, "recording, a .ttrec file")
      ->required()
      ->type_name("FILE")
      ->check(CLI::Validator(CLI::ExistingFile).description(""));
  command.add_option("--run", flags.replay.run_id,
                     "id of the run, 16 hex digits; default: the newest run in the file");
  command.add_option("--speed", flags.replay.speed, "factor of the recorded speed, 0.1 to 100")
      ->type_name("NUMBER")
      ->check(CLI::Range(0.1, 100.0).description(""));
  command.add_flag("--paused", flags.replay.paused, "start paused");
}

}  // namespace

int main(int argc, char** argv) {
  HubFlags flags;
  // `tensor-tracer` starts this program for its own commands.
  const std::string_view command = argc > 1 ? argv[1] : "";
  CLI::App app{"The server between viewers and a training run or its recording",
               command == "replay" || command == "runs" ? "tensor-tracer" : "tensor-tracer-hub"};
  tt::cli::set_help_text(app);
  app.set_version_flag("--version", "tensor-tracer-hub " TT_VERSION);
  app.require_subcommand(1);
  add_serve(*app.add_subcommand("serve", "Serve the viewers and the trainer of a run"), flags);
  CLI::App* const supervise_command = app.add_subcommand(
      "supervise", "Start the hub of a run, and restart it if it dies; settings are in run.json");
  add_supervise(*supervise_command, flags);
  CLI::App* const replay_command =
      app.add_subcommand("replay", "Show a recording on the page like a live run");
  add_replay(*replay_command, flags);
  tt::cli::RunsCommand runs(app);
  try {
    app.parse(argc, argv);
    if (runs.is_given()) return runs.run();
    flags.is_supervisor = supervise_command->parsed();
    const auto run_it = [&] { return run(flags); };
    return replay_command->parsed() ? replay(flags, run_it) : run_it();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : tt::cli::kExitUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tensor-tracer-hub: %s\n", error.what());
    return tt::cli::kExitFailure;
  }
}

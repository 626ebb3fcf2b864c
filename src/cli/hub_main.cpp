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
#include "src/cli/export_command.h"
#include "src/cli/hub_flags.h"
#include "src/cli/run_dir_lock.h"
#include "tensor_tracer/base/private_file.h"
#include "tensor_tracer/base/ssh_command.h"
#include "tensor_tracer/base/thread.h"
#include "tensor_tracer/hub/server.h"
#include "tensor_tracer/hub/supervisor.h"
#include "tensor_tracer/protocol/message.h"
#include "tensor_tracer/record/recording.h"

namespace {

using tt::base::Result;
using tt::base::Status;
using tt::cli::HubFlags;

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(seconds));
}

std::string own_path() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

std::string default_page_dir() {
  const std::filesystem::path program = own_path();
  return (program.parent_path() / "../../../frontend/dist").lexically_normal().string();
}

// The run's log is open to its owner only: it names sessions and what they did.
void open_log(const HubFlags& flags) {
  const std::string path = flags.run_dir + "/hub.log";
  auto file = std::make_shared<spdlog::sinks::basic_file_sink_st>(path);
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "hub", tt::hub::make_event_sink(std::move(file), flags.log_format, flags.run_id)));
  spdlog::flush_on(spdlog::level::info);
  std::filesystem::permissions(
      path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

std::string known_run_id(const std::string& run_dir) {
  const auto text = tt::base::read_small_file(run_dir + "/hub.json");
  const auto known = text.ok() ? tt::protocol::parse_json(text.value()) : text.error();
  if (known.ok() && known.value().is_object() && known.value().value("run_id", "") != "") {
    return known.value().value("run_id", "");
  }
  return tt::base::random_hex(8);
}

std::string url_of(int port) { return "http://127.0.0.1:" + std::to_string(port) + "/"; }

Status write_hub_json(const HubFlags& flags, int port) {
  const nlohmann::json facts = {{"run_id", flags.run_id},
                                {"url", url_of(port)},
                                {"port", port},
                                {"pid", ::getpid()},
                                {"host", tt::base::whereabouts().host}};
  return tt::base::write_private_file(flags.run_dir + "/hub.json", facts.dump(2) + "\n");
}

void warn_of_open_address(const HubFlags& flags, int port) {
  const tt::base::Whereabouts here = tt::base::whereabouts();
  const std::string text = "--bind " + flags.access.bind +
                           ": what travels there, tokens too, is not encrypted; safer without it: "
                           "ssh -L " +
                           std::to_string(port) + ":127.0.0.1:" + std::to_string(port) + " " +
                           here.host;
  spdlog::warn("unencrypted: {}", text);
  if (flags.listen_fds.empty()) {
    std::fprintf(stderr, "tensor-tracer-hub: warning: %s\n", text.c_str());
  }
}

// Standard output that is no terminal may be a log that others read: no token goes there.
std::string address_to_print(const HubFlags& flags, const std::string& token, int port) {
  const std::string url = url_of(port);
  if (!flags.access.viewers_need_token) {
    return url;
  }
  return flags.print_url.value_or(::isatty(STDOUT_FILENO) == 1)
             ? url + "#token=" + token
             : url + " (token in " + flags.run_dir + "/token)";
}

// Told only once the files are there: who waits for this line reads them next.
void notify_ready(const HubFlags& flags, const std::string& token, int port,
                  tt::base::ScopedFd& ready) {
  spdlog::info("serving: port {} of loopback, process {}", port, ::getpid());
  if (!tt::hub::is_loopback(flags.access.bind)) {
    warn_of_open_address(flags, port);
  }
  if (ready) {
    if (::write(ready.get(), "1", 1) != 1) {
      spdlog::warn("ready: nobody waits for the hub to be ready");
    }
    ready.reset();
  }
  if (!flags.listen_fds.empty()) {
    return;
  }
  std::printf("%s\n", address_to_print(flags, token, port).c_str());
  const std::string ssh = tt::base::ssh_command(tt::base::whereabouts(), port);
  if (!ssh.empty()) {
    std::printf("from your own machine: %s\n", ssh.c_str());
  }
  std::fflush(stdout);
}

Result<std::vector<tt::base::ScopedFd>> listeners_of(const HubFlags& flags) {
  if (flags.listen_fds.empty()) {
    return tt::hub::open_listeners(flags.access.bind, flags.port);
  }
  std::vector<tt::base::ScopedFd> listeners;
  for (const int fd : flags.listen_fds) {
    listeners.emplace_back(fd);
  }
  return listeners;
}

// A recording that is written, or one that is shown.
Status choose_source(const HubFlags& flags, tt::hub::ServerOptions& options) {
  options.compare = flags.compare;
  if (!flags.replay.path.empty()) {
    options.replay = flags.replay;
    return {};
  }
  if (Status made = make_record_dir(flags.recording); !made.ok() && !flags.restarted) {
    return made;
  }
  auto recorder = recorder_options(flags.recording, flags.run_dir, flags.run_id);
  if (!recorder) {
    return recorder.error();
  }
  options.recorder = std::move(recorder).value();
  return {};
}

// `ready` is closed once it was told that the hub serves.
Status serve(const HubFlags& flags, tt::base::ScopedFd& ready) {
  if (!flags.listen_fds.empty()) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // no hub without its supervisor
  }
  tt::hub::ServerOptions options;
  options.run_id = flags.run_id;
  options.page_dir = flags.page_dir;
  options.lease = milliseconds(flags.lease_seconds);
  options.idle_timeout = milliseconds(flags.idle_seconds);
  options.ready_timeout = milliseconds(flags.ready_seconds);
  options.access = flags.access;
  options.access.hosts = allowed_hosts(flags.access, tt::base::whereabouts().host);
  for (const auto& [name, secret] :
       {std::pair("/token", &options.token), std::pair("/viewer_token", &options.viewer_token),
        std::pair("/worker_token", &options.worker_token)}) {
    auto text = tt::base::read_or_make_secret(flags.run_dir + name);
    if (!text) {
      return text.error();
    }
    *secret = std::move(text).value();
  }
  auto listeners = listeners_of(flags);
  const auto port = listeners ? tt::hub::port_of(listeners.value().front()) : listeners.error();
  if (!port) {
    return port.error();
  }
  if (Status written = write_hub_json(flags, port.value()); !written.ok()) {
    if (!flags.restarted) {
      return written;
    }
    options.alarms.push_back(written.error());
  }
  if (Status chosen = choose_source(flags, options); !chosen.ok()) {
    return chosen;
  }
  options.needs_recorder = !flags.restarted && !flags.recording.record_dir.empty();
  return tt::hub::serve(std::move(listeners).value(), options,
                        [&] { notify_ready(flags, options.token, port.value(), ready); });
}

Status supervise(const HubFlags& flags, tt::base::ScopedFd& ready) {
  return tt::hub::supervise({.program = own_path(),
                             .arguments = tt::cli::words_of(flags),
                             .run_dir = flags.run_dir,
                             .bind = flags.access.bind,
                             .port = flags.port,
                             .linger = flags.linger,
                             .alive = tt::base::ScopedFd(flags.alive_fd),
                             .ready = std::move(ready)});
}

// A program that waits for the hub to be ready gets the error; else it is printed.
int refuse(const tt::base::ScopedFd& ready, bool has_program, const tt::base::Error& error) {
  if (!has_program) {
    std::fprintf(stderr, "tensor-tracer-hub: %s\n", tt::base::to_string(error).c_str());
  }
  tt::hub::notify_failure(ready, error);
  return tt::cli::exit_code(error);
}

// A replay has no run's directory; what it needs goes with it.
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

int run(const CLI::App& supervise_command, HubFlags& flags) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is a full disk, no reason to end
  std::signal(SIGPIPE, SIG_IGN);  // the program that waits for the hub may have ended
  tt::base::ScopedFd ready(flags.ready_fd);
  const bool has_program = flags.ready_fd >= 0;
  if (Status possible = check(flags.access); !possible.ok()) {
    return refuse(ready, has_program, possible.error());
  }
  tt::base::reset_affinity();
  // A supervisor's hub has the lock of its supervisor.
  const auto lock = flags.listen_fds.empty() ? tt::cli::lock_run_dir(flags.run_dir)
                                             : Result<tt::base::ScopedFd>(tt::base::ScopedFd());
  if (!lock) {
    return refuse(ready, has_program, lock.error());
  }
  flags.run_id = flags.run_id.empty() ? known_run_id(flags.run_dir) : flags.run_id;
  open_log(flags);
  const Status status = supervise_command.parsed() ? supervise(flags, ready) : serve(flags, ready);
  if (status.ok()) {
    return tt::cli::kExitDone;
  }
  spdlog::error("failed: {}", tt::base::to_string(status.error()));
  return refuse(ready, has_program, status.error());
}

}  // namespace

int main(int argc, char** argv) {
  HubFlags flags;
  CLI::App app{"The server between a training run and its viewers, and what reads its recordings"};
  app.set_version_flag("--version", "tensor-tracer-hub " TT_VERSION);
  app.require_subcommand(1);
  CLI::App* const serve_command = app.add_subcommand("serve", "Serve viewers and workers");
  CLI::App* const supervise_command =
      app.add_subcommand("supervise", "Keep a hub running as long as a run lives");
  CLI::App* const replay_command =
      app.add_subcommand("replay", "Show a recording on the page as if it were a run");
  tt::cli::ExportCommand export_command(app);
  for (CLI::App* const command : {serve_command, supervise_command, replay_command}) {
    tt::cli::add_common_flags(*command, flags);
  }
  tt::cli::add_run_flags(*serve_command, flags);
  tt::cli::add_run_flags(*supervise_command, flags);
  tt::cli::add_replay_flags(*replay_command, flags.replay);
  serve_command->add_option("--listen-fd", flags.listen_fds, "an open listening socket");
  serve_command->add_flag("--restarted", flags.restarted,
                          "the run has had a hub before: serve it, whatever cannot be written");
  supervise_command->add_option("--alive-fd", flags.alive_fd, "its end of file is the run's end")
      ->required();
  supervise_command->add_flag("--linger", flags.linger, "stay when the run has ended");
  try {
    flags.page_dir = default_page_dir();
    app.parse(argc, argv);
    if (export_command.parsed()) {
      return export_command.run();
    }
    const auto run_it = [&] { return run(*supervise_command, flags); };
    return replay_command->parsed() ? replay(flags, run_it) : run_it();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : tt::cli::kExitUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tensor-tracer-hub: %s\n", error.what());
    return tt::cli::kExitFailure;
  }
}

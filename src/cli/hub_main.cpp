#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "src/cli/export_command.h"
#include "tensor_tracer/base/private_file.h"
#include "tensor_tracer/base/thread.h"
#include "tensor_tracer/hub/server.h"
#include "tensor_tracer/hub/supervisor.h"
#include "tensor_tracer/protocol/message.h"

namespace {

using tt::base::Result;
using tt::base::Status;

constexpr int kFailed = 1;

struct Flags {
  std::string run_dir;
  std::string run_id;
  std::string page_dir;
  int port = 8765;
  double lease_seconds = 30;
  double idle_seconds = 30;
  int listen_fd = -1;
  int ready_fd = -1;
  int alive_fd = -1;
  bool linger = false;
};

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
void open_log(const Flags& flags) {
  const std::string path = flags.run_dir + "/hub.log";
  spdlog::set_default_logger(spdlog::basic_logger_st("hub", path));
  spdlog::flush_on(spdlog::level::info);
  std::filesystem::permissions(
      path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

std::string run_id_of(const Flags& flags) {
  if (!flags.run_id.empty()) {
    return flags.run_id;
  }
  const auto text = tt::base::read_small_file(flags.run_dir + "/hub.json");
  const auto known = text.ok() ? tt::protocol::parse_json(text.value()) : text.error();
  if (known.ok() && known.value().is_object() && known.value().value("run_id", "") != "") {
    return known.value().value("run_id", "");
  }
  return tt::base::random_hex(8);
}

Status write_hub_json(const Flags& flags, const std::string& run_id, int port) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const nlohmann::json facts = {{"run_id", run_id},
                                {"url", "http://127.0.0.1:" + std::to_string(port) + "/"},
                                {"port", port},
                                {"pid", ::getpid()},
                                {"host", host.data()}};
  return tt::base::write_private_file(flags.run_dir + "/hub.json", facts.dump(2) + "\n");
}

// Told only once the files are there: who waits for this line reads them next.
void tell_ready(const Flags& flags, const std::string& token, int port) {
  spdlog::info("serving on 127.0.0.1:{}, process {}", port, ::getpid());
  if (flags.ready_fd >= 0) {
    const tt::base::ScopedFd ready(flags.ready_fd);
    if (::write(ready.get(), "1", 1) != 1) {
      spdlog::warn("nobody waits for the hub to be ready");
    }
  }
  if (flags.listen_fd < 0) {
    std::printf("http://127.0.0.1:%d/#token=%s\n", port, token.c_str());
    std::fflush(stdout);
  }
}

Status serve(const Flags& flags) {
  if (flags.listen_fd >= 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // no hub without its supervisor
  }
  auto token = tt::base::read_or_make_secret(flags.run_dir + "/token");
  auto worker_token = tt::base::read_or_make_secret(flags.run_dir + "/worker_token");
  auto listener = flags.listen_fd >= 0
                      ? Result<tt::base::ScopedFd>(tt::base::ScopedFd(flags.listen_fd))
                      : tt::hub::listen_on_loopback(flags.port);
  if (!token || !worker_token || !listener) {
    return !token ? token.error() : !worker_token ? worker_token.error() : listener.error();
  }
  const auto port = tt::hub::port_of(listener.value());
  if (!port) {
    return port.error();
  }
  const std::string run_id = run_id_of(flags);
  if (Status written = write_hub_json(flags, run_id, port.value()); !written.ok()) {
    return written;
  }
  const tt::hub::ServerOptions options{.run_id = run_id,
                                       .token = token.value(),
                                       .worker_token = worker_token.value(),
                                       .page_dir = flags.page_dir,
                                       .lease = milliseconds(flags.lease_seconds),
                                       .idle_timeout = milliseconds(flags.idle_seconds)};
  return tt::hub::serve(std::move(listener).value(), options,
                        [&] { tell_ready(flags, token.value(), port.value()); });
}

Status supervise(const Flags& flags) {
  tt::hub::SupervisorOptions options{
      .program = own_path(),
      .arguments = {"--run-dir", flags.run_dir, "--page-dir", flags.page_dir, "--lease-seconds",
                    std::to_string(flags.lease_seconds), "--idle-seconds",
                    std::to_string(flags.idle_seconds)},
      .port = flags.port,
      .linger = flags.linger,
      .alive = tt::base::ScopedFd(flags.alive_fd),
      .ready = tt::base::ScopedFd(flags.ready_fd)};
  if (!flags.run_id.empty()) {
    options.arguments.insert(options.arguments.end(), {"--run-id", flags.run_id});
  }
  return tt::hub::supervise(std::move(options));
}

void add_common_flags(CLI::App& command, Flags& flags) {
  command.add_option("--run-dir", flags.run_dir, "the run's directory: tokens, hub.json, hub.log")
      ->required()
      ->check(CLI::ExistingDirectory);
  command.add_option("--port", flags.port, "port on 127.0.0.1; 0: the next free one from 8765")
      ->check(CLI::Range(0, 65535));
  command.add_option("--page-dir", flags.page_dir, "the built page (frontend/dist)");
  command.add_option("--run-id", flags.run_id, "16 hex digits; default: as in hub.json, or new");
  command.add_option("--lease-seconds", flags.lease_seconds, "how long control lasts in silence")
      ->check(CLI::Range(0.1, 86400.0));
  command.add_option("--idle-seconds", flags.idle_seconds, "when a silent client is cut off")
      ->check(CLI::Range(0.5, 86400.0));
  command.add_option("--ready-fd", flags.ready_fd, "descriptor to tell that the hub is ready");
}

Status run(const CLI::App& serve_command, const Flags& flags) {
  tt::base::reset_affinity();
  open_log(flags);
  Status status = serve_command.parsed() ? serve(flags) : supervise(flags);
  if (!status.ok()) {
    spdlog::error("{}", tt::base::to_string(status.error()));
    std::fprintf(stderr, "tensor-tracer-hub: %s\n", tt::base::to_string(status.error()).c_str());
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app{"The server between a training run and its viewers, and what reads its recordings"};
  app.set_version_flag("--version", "tensor-tracer-hub " TT_VERSION);
  app.require_subcommand(1);
  CLI::App* const serve_command = app.add_subcommand("serve", "Serve viewers and workers");
  CLI::App* const supervise_command =
      app.add_subcommand("supervise", "Keep a hub running as long as a run lives");
  tt::cli::ExportCommand export_command(app);
  add_common_flags(*serve_command, flags);
  add_common_flags(*supervise_command, flags);
  serve_command->add_option("--listen-fd", flags.listen_fd, "an open listening socket");
  supervise_command->add_option("--alive-fd", flags.alive_fd, "its end of file is the run's end")
      ->required();
  supervise_command->add_flag("--linger", flags.linger, "stay when the run has ended");
  try {
    flags.page_dir = default_page_dir();
    app.parse(argc, argv);
    if (export_command.parsed()) {
      return export_command.run();
    }
    return run(*serve_command, flags).ok() ? 0 : kFailed;
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tensor-tracer-hub: %s\n", error.what());
    return kFailed;
  }
}

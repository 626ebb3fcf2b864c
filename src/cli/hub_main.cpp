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
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "tensor_tracer/base/private_file.h"
#include "tensor_tracer/base/ranges.h"
#include "tensor_tracer/base/thread.h"
#include "tensor_tracer/hub/server.h"
#include "tensor_tracer/hub/supervisor.h"
#include "tensor_tracer/protocol/message.h"
#include "tensor_tracer/record/recording.h"

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
  std::string record_dir;
  std::uint64_t record_max_bytes = 0;
  std::uint64_t history_bytes = std::uint64_t{256} << 20U;
  std::vector<std::string> record_points;
  std::string record_layers;
  std::uint64_t record_every = 1;
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

// A recording of another run is not touched.
std::string recording_path(const std::string& folder, const std::string& run_id) {
  const std::string path = folder + "/run.ttrec";
  if (!std::filesystem::exists(path)) {
    return path;
  }
  if (auto recording = tt::record::Recording::open(path)) {
    for (const tt::record::RunInfo& run : recording.value().runs()) {
      if (run.id == run_id) {
        return path;
      }
    }
  }
  return folder + "/run-" + run_id + ".ttrec";
}

Result<std::optional<tt::record::RecorderOptions>> recorder_options(const Flags& flags,
                                                                    const std::string& run_id) {
  tt::record::RecorderOptions options;
  if (flags.record_dir.empty()) {
    options.path = flags.run_dir + "/history.ttrec";
    options.max_bytes = flags.history_bytes;
    options.temporary = true;
    return flags.history_bytes == 0 ? std::nullopt : std::optional(std::move(options));
  }
  std::error_code failure;
  std::filesystem::create_directories(flags.record_dir, failure);
  options.path = recording_path(flags.record_dir, run_id);
  options.max_bytes = flags.record_max_bytes;
  options.filter.every = flags.record_every;
  if (!flags.record_points.empty()) {
    options.filter.points.emplace(flags.record_points.begin(), flags.record_points.end());
  }
  if (!flags.record_layers.empty()) {
    const auto layers = tt::base::parse_numbers(flags.record_layers);
    if (!layers) {
      return tt::base::Error{.code = "invalid_argument",
                             .message = flags.record_layers + " is not a list of layers",
                             .where = "--record-layers",
                             .remedy = "give ranges such as 1-4,8"};
    }
    options.filter.layers = layers;
  }
  return std::optional(std::move(options));
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
  auto recorder = recorder_options(flags, run_id);
  if (!recorder) {
    return recorder.error();
  }
  const tt::hub::ServerOptions options{.run_id = run_id,
                                       .token = token.value(),
                                       .worker_token = worker_token.value(),
                                       .page_dir = flags.page_dir,
                                       .lease = milliseconds(flags.lease_seconds),
                                       .idle_timeout = milliseconds(flags.idle_seconds),
                                       .recorder = std::move(recorder).value()};
  return tt::hub::serve(std::move(listener).value(), options,
                        [&] { tell_ready(flags, token.value(), port.value()); });
}

void append_recording_flags(const Flags& flags, std::vector<std::string>& arguments) {
  const auto append = [&](const char* name, const std::string& value) {
    arguments.insert(arguments.end(), {name, value});
  };
  append("--history-bytes", std::to_string(flags.history_bytes));
  append("--record-max-bytes", std::to_string(flags.record_max_bytes));
  append("--record-every", std::to_string(flags.record_every));
  if (!flags.record_dir.empty()) {
    append("--record", flags.record_dir);
  }
  if (!flags.record_layers.empty()) {
    append("--record-layers", flags.record_layers);
  }
  for (const std::string& point : flags.record_points) {
    append("--record-points", point);
  }
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
  append_recording_flags(flags, options.arguments);
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
  command.add_option("--record", flags.record_dir,
                     "directory of the recording, run.ttrec (default: none, and history in a "
                     "temporary file)");
  command
      .add_option("--record-max-bytes", flags.record_max_bytes,
                  "of the recording, its oldest steps go first; 0: no bound")
      ->transform(CLI::AsSizeValue(false));
  command.add_option("--record-points", flags.record_points, "record these trace points only")
      ->delimiter(',');
  command.add_option("--record-layers", flags.record_layers, "record these layers only: 1-4,8");
  command.add_option("--record-every", flags.record_every, "record steps that this divides")
      ->check(CLI::PositiveNumber);
  command
      .add_option("--history-bytes", flags.history_bytes,
                  "of the temporary file without --record; 0: no history")
      ->transform(CLI::AsSizeValue(false));
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
  CLI::App app{"The server between a training run and its viewers"};
  app.set_version_flag("--version", "tensor-tracer-hub " TT_VERSION);
  app.require_subcommand(1);
  CLI::App* const serve_command = app.add_subcommand("serve", "Serve viewers and workers");
  CLI::App* const supervise_command =
      app.add_subcommand("supervise", "Keep a hub running as long as a run lives");
  add_common_flags(*serve_command, flags);
  add_common_flags(*supervise_command, flags);
  serve_command->add_option("--listen-fd", flags.listen_fd, "an open listening socket");
  supervise_command->add_option("--alive-fd", flags.alive_fd, "its end of file is the run's end")
      ->required();
  supervise_command->add_flag("--linger", flags.linger, "stay when the run has ended");
  try {
    flags.page_dir = default_page_dir();
    app.parse(argc, argv);
    return run(*serve_command, flags).ok() ? 0 : kFailed;
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tensor-tracer-hub: %s\n", error.what());
    return kFailed;
  }
}

#include "src/cli/hub_flags.h"

#include <cstdint>
#include <map>

namespace tt::cli {
namespace {

void add_access_flags(CLI::App& command, hub::Access& access) {
  command.add_option("--bind", access.bind,
                     "address to listen on besides the loopback ones; 0.0.0.0: all. What travels "
                     "there is not encrypted");
  command
      .add_option_function<bool>(
          "--auth", [&access](const bool& token) { access.viewers_need_token = token; },
          "token or none: whether viewers need a token; none only without --bind")
      ->transform(
          CLI::CheckedTransformer(std::map<std::string, bool>{{"token", true}, {"none", false}}));
  command.add_option("--allow-host", access.hosts,
                     "name under which browsers may reach this hub; may be repeated");
  command.add_option("--allow-origin", access.origins,
                     "origin, such as http://localhost:5173, whose pages may connect; may be "
                     "repeated");
}

}  // namespace

void add_run_flags(CLI::App& command, HubFlags& flags) {
  command.add_option("--run-dir", flags.run_dir, "the run's directory: tokens, hub.json, hub.log")
      ->required()
      ->check(CLI::ExistingDirectory);
  command.add_option("--run-id", flags.run_id, "16 hex digits; default: as in hub.json, or new");
  command.add_option("--ready-fd", flags.ready_fd, "descriptor to tell that the hub is ready");
  add_recording_flags(command, flags.recording);
}

void add_common_flags(CLI::App& command, HubFlags& flags) {
  command.add_option("--port", flags.port, "port of every address; 0: the next free one from 8765")
      ->check(CLI::Range(0, 65535));
  add_access_flags(command, flags.access);
  command.add_option("--log-format", flags.log_format, "json or text, a line per event in hub.log")
      ->transform(CLI::CheckedTransformer(std::map<std::string, hub::LogFormat>{
          {"json", hub::LogFormat::kJson}, {"text", hub::LogFormat::kText}}));
  command
      .add_option("--compare", flags.compare,
                  "another recording, with whose runs the page can compare; may be repeated")
      ->check(CLI::ExistingFile);
  // Of an optional add_flag() makes a counter that begins with 0.
  command.add_flag_function(
      "--print-url,!--no-print-url", [&flags](std::int64_t sum) { flags.print_url = sum > 0; },
      "print the page's address with its token, or only where the token is; without it, the token "
      "is printed to a terminal alone");
  command.add_option("--page-dir", flags.page_dir, "the built page (frontend/dist)");
  const auto seconds = [&](const char* flag, double& field, double least, const char* text) {
    command.add_option(flag, field, text)->check(CLI::Range(least, 86400.0));
  };
  seconds("--lease-seconds", flags.lease_seconds, 0.1, "how long control lasts in silence");
  seconds("--idle-seconds", flags.idle_seconds, 0.5, "when a silent client is cut off");
  seconds("--ready-timeout", flags.ready_seconds, 0.1,
          "seconds that a trainer may say nothing until /readyz says so");
}

std::vector<std::string> words_of(const HubFlags& flags) {
  const hub::Access& access = flags.access;
  std::vector<std::string> words = {
      "--run-dir",       flags.run_dir,
      "--run-id",        flags.run_id,
      "--page-dir",      flags.page_dir,
      "--lease-seconds", std::to_string(flags.lease_seconds),
      "--idle-seconds",  std::to_string(flags.idle_seconds),
      "--ready-timeout", std::to_string(flags.ready_seconds),
      "--log-format",    flags.log_format == hub::LogFormat::kJson ? "json" : "text",
      "--auth",          access.viewers_need_token ? "token" : "none"};
  const std::vector<std::string> recording = words_of(flags.recording);
  words.insert(words.end(), recording.begin(), recording.end());
  if (!access.bind.empty()) {
    words.insert(words.end(), {"--bind", access.bind});
  }
  for (const std::string& path : flags.compare) {
    words.insert(words.end(), {"--compare", path});
  }
  for (const std::string& host : access.hosts) {
    words.insert(words.end(), {"--allow-host", host});
  }
  for (const std::string& origin : access.origins) {
    words.insert(words.end(), {"--allow-origin", origin});
  }
  return words;
}

}  // namespace tt::cli

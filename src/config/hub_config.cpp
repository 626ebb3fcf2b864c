#include "tensor_tracer/config/hub_config.h"

#include "tensor_tracer/base/private_file.h"

namespace tt::config {

Options viewer_options(HubConfig& config) {
  return {
      {"--port", &config.port, "port of every address; 0: the next free one from 8765",
       within(0, 65535)},
      {"--bind", &config.bind,
       "address to listen on besides the loopback ones; 0.0.0.0: all. What travels there is "
       "not encrypted"},
      {"--auth", &config.auth,
       "token or none: whether viewers need a token; none only without --bind",
       one_of({"token", "none"})},
      {"--allow-host", &config.allow_host,
       "name under which browsers may reach this hub; may be repeated"},
      {"--allow-origin", &config.allow_origin,
       "origin, such as http://localhost:5173, whose pages may connect; may be repeated"},
      {"--log-format", &config.log_format, "json or text, a line per event in hub.log",
       one_of({"json", "text"})},
      {"--compare", &config.compare,
       "another recording, with whose runs the page can compare; may be repeated", existing_file()},
      {"--print-url", Switch{&config.print_url},
       "print the page's address with its token, or only where the token is; without it, the "
       "token is printed to a terminal alone"},
      {"--page-dir", &config.page_dir, "the built page; default: frontend/dist"},
      {"--lease-seconds", &config.lease_seconds, "how long control lasts in silence, 0.1 to 86400",
       within(0.1, 86400)},
      {"--idle-seconds", &config.idle_seconds, "when a silent client is cut off, 0.5 to 86400",
       within(0.5, 86400)},
      {"--ready-timeout", &config.ready_timeout,
       "seconds (0.1 to 86400) that a trainer may be silent until /readyz says so",
       within(0.1, 86400)}};
}

Options run_options(HubConfig& config) {
  return joined({{{"--run-id", &config.run_id, "16 hex digits; default: as in hub.json, or new"}},
                 recording_options(config.recording),
                 alarm_options(config.alarm)});
}

Options run_file_options(HubConfig& config) {
  const Check known = number("is a version that this program does not know",
                             [](double version) { return version == 1; });
  return joined({{{"--version", &config.version, "", known}, {"--linger", &config.linger, ""}},
                 viewer_options(config),
                 run_options(config)});
}

std::string run_file_path(const std::string& run_dir) { return run_dir + "/run.json"; }

base::Status write_run_file(const std::string& run_dir, HubConfig config) {
  nlohmann::json object;
  for (const Option& option : run_file_options(config)) {
    const nlohmann::json value = value_of(option);
    if (!text_of(value).empty()) object[key_of(option)] = value;
  }
  return base::write_private_file(run_file_path(run_dir), object.dump(2) + "\n");
}

}  // namespace tt::config

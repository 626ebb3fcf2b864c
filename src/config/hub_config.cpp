#include "tensor_tracer/config/hub_config.h"

#include "tensor_tracer/base/private_file.h"

namespace tt::config {

Options viewer_options(HubConfig& config) {
  return {{"--port", &config.port, "port on all addresses; 0: the next free port from 8765",
           within(0, 65535)},
          {"--bind", &config.bind,
           "address to listen on besides loopback; 0.0.0.0: all. Data on this address is not "
           "encrypted"},
          {"--auth", &config.auth,
           "access of viewers: token or none; none is possible only without --bind",
           one_of({"token", "none"})},
          {"--allow-host", &config.allow_host,
           "host name that browsers may use for this hub; may be repeated"},
          {"--allow-origin", &config.allow_origin,
           "origin whose pages may connect, such as http://localhost:5173; may be repeated"},
          {"--log-format", &config.log_format, "format of hub.log: json or text",
           one_of({"json", "text"})},
          {"--compare", &config.compare,
           "another recording that the page can compare with; may be repeated", existing_file()},
          {"--print-url", Switch{&config.print_url},
           "print the page's address with the token, or the name of the token's file; default: the "
           "token is printed only on a terminal"},
          {"--page-dir", &config.page_dir, "the built page; default: frontend/dist"},
          {"--lease-seconds", &config.lease_seconds,
           "seconds (0.1 to 86400) until the control of a silent viewer ends", within(0.1, 86400)},
          {"--idle-seconds", &config.idle_seconds,
           "seconds (0.5 to 86400) until a silent client is disconnected", within(0.5, 86400)},
          {"--ready-timeout", &config.ready_timeout,
           "seconds (0.1 to 86400) without a step until /readyz reports it", within(0.1, 86400)}};
}

Options run_options(HubConfig& config) {
  return joined({{{"--run-id", &config.run_id,
                   "id of the run, 16 hex digits; default: the id in hub.json, or a new one"}},
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

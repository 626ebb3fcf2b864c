#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/protocol/request.h"

/// The alarms of a run's hub: docs/alarms.md. Thread: any.
namespace tt::hub {

/// An address of plain HTTP.
struct WebhookUrl {
  std::string host;
  std::string port = "80";
  std::string target = "/";
};

struct AlarmSetup {
  std::string path = {};                         // of alarms.json; empty: they end with the hub
  std::vector<protocol::SetAlarm> initial = {};  // if the run has no alarms.json yet
  std::chrono::milliseconds pause{1'800'000};    // the longest that an alarm may begin
  std::optional<WebhookUrl> webhook = {};
  std::vector<std::string> command = {};  // path of a program, and its arguments; empty: none
  std::uint64_t spike_steps = 0;          // of the spike recorder; 0: none
  std::string spike_folder = {};
  std::string command_log = {};  // the file that the command's output is appended to
};

/// Reads the file of --alarms, a list of alarms. The error names the file and the alarm.
base::Result<std::vector<protocol::SetAlarm>> read_alarms(const std::string& path);

/// Reads the address of --alarm-webhook. An https address is refused: the hub has no TLS library.
base::Result<WebhookUrl> parse_webhook(const std::string& url);

/// The path of the program of --alarm-command, which is a path or a name in PATH.
base::Result<std::string> find_program(const std::string& name);

}  // namespace tt::hub

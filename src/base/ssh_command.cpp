#include "tensor_tracer/base/ssh_command.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>

namespace tt::base {
namespace {

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The user will paste the name into a shell.
bool is_host_name(const std::string& text) {
  return !text.empty() && text.front() != '-' &&
         std::all_of(
             text.begin(), text.end(),
             [](unsigned char c) {
               return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
             });
}

}  // namespace

Whereabouts whereabouts() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return {.host = host.data(),
          .slurm_job = environment("SLURM_JOB_ID"),
          .slurm_submitter = environment("SLURM_SUBMIT_HOST"),
          .ssh_connection = environment("SSH_CONNECTION")};
}

std::string ssh_command(const Whereabouts& here, int port) {
  const bool in_job = !here.slurm_job.empty();
  if ((!in_job && here.ssh_connection.empty()) || !is_host_name(here.host)) return {};
  const std::string number = std::to_string(port);
  std::string command = "ssh -L " + number + ":127.0.0.1:" + number + " ";
  if (in_job && here.slurm_submitter != here.host) {
    command += "-J ";
    command += is_host_name(here.slurm_submitter) ? here.slurm_submitter : "LOGIN_NODE";
    command += " ";
  }
  return command + here.host;
}

}  // namespace tt::base

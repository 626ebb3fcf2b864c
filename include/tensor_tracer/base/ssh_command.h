#pragma once

#include <string>

namespace tt::base {

/// Facts that this process can find about how its user reached this machine.
struct Whereabouts {
  std::string host = {};             // this machine
  std::string slurm_job = {};        // SLURM_JOB_ID
  std::string slurm_submitter = {};  // SLURM_SUBMIT_HOST: the login node
  std::string ssh_connection = {};   // SSH_CONNECTION
};

/// Reads the environment and asks the kernel. Thread: any, while no thread changes the environment.
Whereabouts whereabouts();

/// The command that the user types on their own machine to reach `port` of this machine's loopback
/// address: "ssh -L 8765:127.0.0.1:8765 -J login1 node17". Empty if no fact shows that the user is
/// on another machine. Thread: any.
std::string ssh_command(const Whereabouts& here, int port);

}  // namespace tt::base

#pragma once

#include <string>

namespace tt::base {

/// What this process can know of how its user came to this machine.
struct Whereabouts {
  std::string host = {};             // this machine
  std::string slurm_job = {};        // SLURM_JOB_ID
  std::string slurm_submitter = {};  // SLURM_SUBMIT_HOST: the login node
  std::string ssh_connection = {};   // SSH_CONNECTION
};

/// From the environment and the kernel. Thread: any, while nobody changes the environment.
Whereabouts whereabouts();

/// What to type on one's own machine to reach `port` of this one's loopback:
/// "ssh -L 8765:127.0.0.1:8765 -J login1 node17". Empty where nothing says that the user is
/// elsewhere. Thread: any.
std::string ssh_command(const Whereabouts& here, int port);

}  // namespace tt::base

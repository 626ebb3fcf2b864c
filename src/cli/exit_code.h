#pragma once

#include "tensor_tracer/base/result.h"

namespace tt::cli {

/// The exit codes of this project's programs; docs/errors.md.
constexpr int kExitDone = 0;
constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;
/// A loss or a gradient was not finite, and was finite when the step was repeated, or was not
/// again. Megatron-LM's codes of its rerun state machine.
constexpr int kExitTransient = 16;
constexpr int kExitPersistent = 17;
/// A rank did not arrive at a collective in time.
constexpr int kExitWatchdog = 18;
/// SIGUSR1 ended the run before its last step, and its state is saved.
constexpr int kExitSaved = 19;
/// The last checkpoint, the model or exported tensors could not be written.
constexpr int kExitStorage = 20;
/// Plus the number of the signal that ended the process.
constexpr int kExitSignal = 128;

/// kExitUsage if another command line or another environment would help.
inline int exit_code(const base::Error& error) {
  for (const char* code : {"usage", "invalid_argument", "not_a_recording", "damaged_recording",
                           "unsupported_version", "cannot_record", "port_in_use", "invalid_secret",
                           "run_dir_in_use", "no_run", "run_in_use", "run_kept"})
    if (error.code == code) return kExitUsage;
  return kExitFailure;
}

}  // namespace tt::cli

#pragma once

/// The commands of `tensor-tracer`. `argv[0]` is the command's name. They return the exit code of
/// docs/errors.md.
namespace tt::cli {

/// `train`: trains.
int run_train(int argc, const char* const* argv);
/// `points`: lists the trace points of a configuration.
int run_points(int argc, const char* const* argv);
/// `check`: whether programs fit a run, and what they would do. kExitUsage if they do not.
int run_check(int argc, const char* const* argv);

}  // namespace tt::cli

#pragma once

/// The commands of `tensor-tracer`. `argv[0]` is the command's name. Each returns an exit code of
/// docs/errors.md.
namespace tt::cli {

/// `train`: trains a model.
int run_train(int argc, const char* const* argv);
/// `generate`: continues prompts with a model.
int run_generate(int argc, const char* const* argv);
/// `points`: lists the trace points of a configuration.
int run_points(int argc, const char* const* argv);
/// `check`: checks whether programs fit a run, and prints their effect. kExitUsage if they do not
/// fit.
int run_check(int argc, const char* const* argv);

/// `inspect`: prints the facts of a model or a checkpoint.
int run_inspect(int argc, const char* const* argv);
/// `convert`: writes a model or a checkpoint in another form.
int run_convert(int argc, const char* const* argv);

/// `vector`: makes and reads direction vectors.
int run_vector(int argc, const char* const* argv);

/// `supervise`: runs a training command from its newest checkpoint, and repeats it if it fails.
/// SIGINT, SIGTERM and SIGUSR1 ask the run to save and end; a second SIGINT or SIGTERM ends it at
/// once. Returns the exit code of the last run.
int run_supervise(int argc, const char* const* argv);

}  // namespace tt::cli

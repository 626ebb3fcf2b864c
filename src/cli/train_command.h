#pragma once

namespace tt::cli {

/// `tensor-tracer train …`: trains, and returns the exit code of docs/errors.md. `argv[0]` is the
/// command's name.
int run_train(int argc, const char* const* argv);

}  // namespace tt::cli

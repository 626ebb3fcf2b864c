#pragma once

namespace tt::cli {

/// `tensor-tracer points`: lists the trace points of a configuration. argv[0] is the command's
/// name. Returns the exit code.
int run_points(int argc, const char* const* argv);

}  // namespace tt::cli

#pragma once

namespace tt::cli {

/// `tensor-tracer check`: whether programs fit a run, and what they would do. Exit code 2 if not.
int run_check(int argc, const char* const* argv);

}  // namespace tt::cli

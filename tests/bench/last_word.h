#pragma once

#include <cstdio>
#include <exception>

namespace tt::bench {

/// What `run` returns; or 1, with the error that it throws on stderr behind the program's name.
inline int with_last_word(const char* program, int (*run)(int, char**), int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    return 1;
  }
}

}  // namespace tt::bench

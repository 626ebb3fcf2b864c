#include <fmt/format.h>

#include <cstdio>
#include <string_view>

#include "src/cli/commands.h"
#include "src/cli/exit_code.h"
#include "src/cli/vector_commands.h"

namespace tt::cli {
namespace {

constexpr std::string_view kVectorUsage =
    R"(Make and read direction vectors, such as persona vectors (docs/vectors.md).

  tensor-tracer vector extract …          make a vector from two sides of texts
  tensor-tracer vector info FILE …        show shape, norms by layer and provenance
  tensor-tracer vector compare FILE …     show the cosines of vectors by layer
  tensor-tracer vector merge FILE … --out FILE.safetensors
                                          write several vectors into one file
  tensor-tracer vector score FILE …       rank training texts by their projection

  tensor-tracer vector COMMAND --help     all flags of a command
)";

}  // namespace

int run_vector(int argc, const char* const* argv) {
  const std::string_view command = argc > 1 ? argv[1] : "--help";
  if (command == "extract") return run_vector_extract(argc - 1, argv + 1);
  if (command == "info") return run_vector_info(argc - 1, argv + 1);
  if (command == "compare") return run_vector_compare(argc - 1, argv + 1);
  if (command == "merge") return run_vector_merge(argc - 1, argv + 1);
  if (command == "score") return run_vector_score(argc - 1, argv + 1);
  if (command == "--help" || command == "-h") {
    fmt::print("{}", kVectorUsage);
    return kExitDone;
  }
  fmt::print(stderr, "tensor-tracer: unknown command \"vector {}\"; see vector --help\n", command);
  return kExitUsage;
}

}  // namespace tt::cli

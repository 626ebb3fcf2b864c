#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/cli/exit_code.h"
#include "src/cli/help_text.h"
#include "src/cli/parse.h"
#include "src/cli/vector_commands.h"
#include "src/cli/vector_inputs.h"
#include "src/cli/vector_report.h"

namespace tt::cli {

int run_vector_info(int argc, const char* const* argv) {
  std::vector<std::string> paths;
  bool as_json = false;
  CLI::App app("Show shape, norms by row and provenance of direction vectors (docs/vectors.md).",
               "tensor-tracer vector info");
  set_help_text(app);
  app.add_option("files", paths, ".pt, .safetensors or .npy files")->required();
  app.add_flag("--json", as_json, "print one JSON list");
  auto parsed = parse(app, argc, argv);
  if (!parsed) return fail(parsed.error());
  if (!parsed.value().empty()) {
    fmt::print("{}", parsed.value());
    return kExitDone;
  }
  const auto vectors = read_given_vectors(paths);
  if (!vectors) return report(vectors.error());
  nlohmann::json all = nlohmann::json::array();
  for (const GivenVector& one : vectors.value())
    all.push_back(describe_vector(one.label, one.vector));
  if (as_json)
    fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  else
    for (const nlohmann::json& facts : all) print_vector(facts);
  return kExitDone;
}

}  // namespace tt::cli

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/cli/exit_code.h"
#include "src/cli/help_text.h"
#include "src/cli/parse.h"
#include "src/cli/vector_commands.h"
#include "src/cli/vector_inputs.h"
#include "tensor_tracer/base/printable.h"

namespace tt::cli {
namespace {

using nlohmann::json;

// PyTorch's name, such as "float32".
std::string torch_name_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return "float64";
    case at::kHalf:
      return "float16";
    case at::kBFloat16:
      return "bfloat16";
    default:
      return "float32";
  }
}

json describe_vector(const GivenVector& given) {
  const checkpoint::StoredVector& vector = given.vector;
  const at::Tensor norms = at::linalg_vector_norm(vector.rows.to(at::kDouble), 2, -1).contiguous();
  const auto* const first = norms.const_data_ptr<double>();
  return {{"vector", given.label},
          {"name", vector.name},
          {"shape", vector.rows.sizes().vec()},
          {"dtype", torch_name_of(vector.rows.scalar_type())},
          {"norms", std::vector<double>(first, first + norms.numel())},
          {"provenance", vector.provenance}};
}

void print_vector_facts(const json& facts) {
  fmt::print("{}: {} {}\n", base::printable(facts["vector"]), facts["shape"].dump(),
             facts["dtype"].get<std::string>());
  if (facts["provenance"].is_null())
    fmt::print("  the file does not say how the vector was made\n");
  for (const auto& [key, value] : facts["provenance"].items()) {
    const std::string text =
        value.is_string() ? value.get<std::string>()
                          : value.dump(-1, ' ', false, json::error_handler_t::replace);
    fmt::print("  {:<16} {}\n", base::printable(key), base::printable(text));
  }
  fmt::print("  row  norm\n");
  for (std::size_t row = 0; row < facts["norms"].size(); ++row)
    fmt::print("  {:>3}  {:.6g}\n", row, facts["norms"][row].get<double>());
}

}  // namespace

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
  json all = json::array();
  for (const GivenVector& one : vectors.value()) all.push_back(describe_vector(one));
  if (as_json)
    fmt::print("{}\n", all.dump(2, ' ', false, json::error_handler_t::replace));
  else
    for (const json& facts : all) print_vector_facts(facts);
  return kExitDone;
}

}  // namespace tt::cli

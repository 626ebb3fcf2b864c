#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
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

// By row; null where a row is zero or not finite.
json cosines_of(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  const at::Tensor norms = at::linalg_vector_norm(x, 2, -1) * at::linalg_vector_norm(y, 2, -1);
  const at::Tensor cosines = ((x * y).sum(-1) / norms).contiguous();
  json values = json::array();
  for (std::int64_t row = 0; row < cosines.numel(); ++row) {
    const double value = cosines.const_data_ptr<double>()[row];
    values.push_back(std::isfinite(value) ? json(value) : json());
  }
  return values;
}

json compare_all(const std::vector<GivenVector>& vectors) {
  json pairs = json::array();
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    for (std::size_t j = i + 1; j < vectors.size(); ++j) {
      pairs.push_back({{"vectors", {vectors[i].label, vectors[j].label}},
                       {"cosines", cosines_of(vectors[i].vector.rows, vectors[j].vector.rows)}});
    }
  }
  return pairs;
}

void print_pairs(const json& pairs) {
  std::string heading = "row";
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const json& names = pairs[i]["vectors"];
    fmt::print("{}: {} and {}\n", i + 1, base::printable(names[0]), base::printable(names[1]));
    heading += fmt::format(" {:>8}", i + 1);
  }
  fmt::print("{}\n", heading);
  for (std::size_t row = 0; row < pairs[0]["cosines"].size(); ++row) {
    std::string line = fmt::format("{:>3}", row);
    for (const json& pair : pairs) {
      const json& cosine = pair["cosines"][row];
      line += cosine.is_null() ? fmt::format(" {:>8}", "-")
                               : fmt::format(" {:>8.4f}", cosine.get<double>());
    }
    fmt::print("{}\n", line);
  }
}

base::Status compare_files(const std::vector<std::string>& paths, bool as_json) {
  const auto vectors = read_given_vectors(paths);
  if (!vectors) return vectors.error();
  if (vectors.value().size() < 2)
    return base::invalid_argument("files", "there is one vector", "give two or more");
  if (auto status = check_same_shape(vectors.value()); !status) return status;
  const json pairs = compare_all(vectors.value());
  if (as_json)
    fmt::print("{}\n", pairs.dump(2, ' ', false, json::error_handler_t::replace));
  else
    print_pairs(pairs);
  return {};
}

}  // namespace

int run_vector_compare(int argc, const char* const* argv) {
  std::vector<std::string> paths;
  bool as_json = false;
  CLI::App app("Show the cosines of direction vectors by row (docs/vectors.md).",
               "tensor-tracer vector compare");
  set_help_text(app);
  app.add_option("files", paths, ".pt, .safetensors or .npy files, of one shape")->required();
  app.add_flag("--json", as_json, "print one JSON list");
  auto parsed = parse(app, argc, argv);
  if (!parsed) return fail(parsed.error());
  if (!parsed.value().empty()) {
    fmt::print("{}", parsed.value());
    return kExitDone;
  }
  const auto status = compare_files(paths, as_json);
  return status ? kExitDone : report(status.error());
}

}  // namespace tt::cli

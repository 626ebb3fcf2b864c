#include "src/cli/vector_report.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "tensor_tracer/base/printable.h"
#include "tensor_tracer/protocol/json_members.h"

namespace tt::cli {
namespace {

using nlohmann::json;

constexpr const char* kByRow = "by_row";

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

std::string text_of_fact(const json& value) {
  return base::printable(value.is_string()
                             ? value.get<std::string>()
                             : value.dump(-1, ' ', false, json::error_handler_t::replace));
}

// The provenance comes from a file, so a list may be shorter, or hold anything.
std::string cell_of(const json& list, std::size_t row) {
  const json value = list.is_array() && row < list.size() ? list[row] : json();
  return value.is_number() ? fmt::format("{:.4f}", value.get<double>()) : "-";
}

}  // namespace

json describe_vector(const std::string& label, const checkpoint::StoredVector& vector) {
  const at::Tensor norms = at::linalg_vector_norm(vector.rows.to(at::kDouble), 2, -1).contiguous();
  const auto* const first = norms.const_data_ptr<double>();
  return {{"vector", label},
          {"name", vector.name},
          {"shape", vector.rows.sizes().vec()},
          {"dtype", torch_name_of(vector.rows.scalar_type())},
          {"norms", std::vector<double>(first, first + norms.numel())},
          {"provenance", vector.provenance}};
}

void print_vector(const json& facts) {
  fmt::print("{}: {} {}\n", text_of_fact(facts["vector"]), facts["shape"].dump(),
             facts["dtype"].get<std::string>());
  const json& provenance = facts["provenance"];
  if (provenance.is_null()) fmt::print("  the file does not say how the vector was made\n");
  for (const auto& [key, value] : provenance.items())
    if (key != kByRow) fmt::print("  {:<16} {}\n", base::printable(key), text_of_fact(value));
  const json& columns = protocol::member(provenance, kByRow);
  std::string heading = fmt::format("  {:>3}  {:>12}", "row", "norm");
  for (const auto& [name, list] : columns.items())
    heading += fmt::format("  {:>16}", base::printable(name));
  fmt::print("{}\n", heading);
  for (std::size_t row = 0; row < facts["norms"].size(); ++row) {
    std::string line = fmt::format("  {:>3}  {:>12.6g}", row, facts["norms"][row].get<double>());
    for (const auto& [name, list] : columns.items())
      line += fmt::format("  {:>16}", cell_of(list, row));
    fmt::print("{}\n", line);
  }
}

}  // namespace tt::cli

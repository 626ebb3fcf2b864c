#include "src/cli/generate_programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "tensor_tracer/points/place_table.h"

namespace tt::cli {
namespace {

using nlohmann::json;

// Null: the text names no row.
const points::Place* row_of(const json& place, const points::PlaceTable& places) {
  const auto row = places.find(place.at("point").get<std::string>());
  return row ? &places.rows()[*row] : nullptr;
}

base::Status check_gradients(const json& used, const std::string& program) {
  for (const json& place : used) {
    if (!place.at("gradient").get<bool>()) continue;
    return base::invalid_argument(
        program, "uses " + place.at("place").get<std::string>() + ", and there is no backward pass",
        "leave the line out");
  }
  return {};
}

// A weight, or a layer that is left out, changes every token of the pass.
base::Status check_positions(const json& checked, const points::PlaceTable& places,
                             const std::string& program, const std::string& positions) {
  if (positions == "all") return {};
  const bool has_weight = std::ranges::any_of(checked.at("writes"), [&](const json& write) {
    const points::Place* const row = row_of(write, places);
    return row != nullptr && row->is_weight;
  });
  if (!has_weight && checked.at("skips").empty()) return {};
  return base::invalid_argument(
      "--intervention-positions",
      "the program \"" + program + "\" writes a weight or skips a layer, for all tokens",
      "give all");
}

}  // namespace

base::Status check_generate_programs(const InterventionSetup& setup, const std::string& positions) {
  const points::PlaceTable& places = setup.context.places();
  for (const ProgramFile& file : setup.programs) {
    const auto checked = intervene::check_program(file.program, setup.context);
    if (!checked) return checked.error();
    const json& facts = checked.value();
    auto status = check_gradients(facts.at("writes"), file.name);
    if (status) status = check_gradients(facts.at("reads"), file.name);
    if (status) status = check_positions(facts, places, file.name, positions);
    if (!status) return status;
    if (status = intervene::check_generation(file.program, setup.context); status) continue;
    base::Error error = status.error();
    error.where = file.name;
    return error;
  }
  return {};
}

void print_generate_programs(const json& applied) {
  for (const json& program : applied.at("programs")) {
    const auto failed = program.at("failed").get<std::int64_t>();
    fmt::print(stderr,
               "tensor-tracer: program \"{}\" changed {} positions in {} forward passes{}\n",
               program.at("name").get<std::string>(), program.at("positions").get<std::int64_t>(),
               program.at("forwards").get<std::int64_t>(),
               failed > 0 ? fmt::format(", and a line failed {} times", failed) : "");
  }
}

}  // namespace tt::cli

#include "src/cli/generate_programs.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <string>

namespace tt::cli {
namespace {

using nlohmann::json;

base::Status check_gradients(const json& used, const std::string& program) {
  for (const json& place : used) {
    if (!place.at("gradient").get<bool>()) continue;
    return base::invalid_argument(
        program, "uses " + place.at("place").get<std::string>() + ", and there is no backward pass",
        "leave the line out");
  }
  return {};
}

}  // namespace

base::Status check_generate_programs(const InterventionSetup& setup) {
  for (const ProgramFile& file : setup.programs) {
    const auto checked = intervene::check_program(file.program, setup.context);
    if (!checked) return checked.error();
    const json& facts = checked.value();
    auto status = check_gradients(facts.at("writes"), file.name);
    if (status) status = check_gradients(facts.at("reads"), file.name);
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

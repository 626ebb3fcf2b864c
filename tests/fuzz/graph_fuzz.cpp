// An intervention as a graph in JSON → a program that comes back from both of its forms, or an
// error.
#include "tests/fuzz/program_check.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto graph = nlohmann::json::parse(tt::fuzz::as_text(data, size), nullptr, false);
  if (graph.is_discarded()) return 0;
  const auto program = tt::graph::read_program(graph, tt::fuzz::model());
  if (program.ok())
    tt::fuzz::check_program(program.value());
  else
    tt::fuzz::check_error(program.error());
  return 0;
}

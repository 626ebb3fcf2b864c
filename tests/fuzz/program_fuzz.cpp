// Text of an intervention → a program that comes back from both of its forms, or an error.
#include "tests/fuzz/program_check.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto program = tt::graph::parse_program(tt::fuzz::as_text(data, size), tt::fuzz::model());
  if (program.ok())
    tt::fuzz::check_program(program.value());
  else
    tt::fuzz::check_error(program.error());
  return 0;
}

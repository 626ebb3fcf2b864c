#include "tensor_tracer/intervene/check.h"

#include "src/intervene/program_cache.h"

namespace tt::intervene {

base::Result<nlohmann::json> check_program(const nlohmann::json& program, const Context& context) {
  auto compiled = context.programs->compile(program, context);
  if (!compiled) return compiled.error();
  return compiled.value()->form;
}

}  // namespace tt::intervene

#include "tensor_tracer/intervene/check.h"

#include "src/intervene/program_cache.h"

namespace tt::intervene {

base::Result<nlohmann::json> check_program(const nlohmann::json& params, const Context& context) {
  const auto program =
      params.is_object() ? params.value("program", nlohmann::json()) : nlohmann::json();
  auto compiled = context.programs->compile(program, context);
  if (!compiled) return compiled.error();
  return compiled.value()->form;
}

}  // namespace tt::intervene

#include "tensor_tracer/intervene/check.h"

#include "src/intervene/active_program.h"

namespace tt::intervene {

base::Result<nlohmann::json> check_program(const nlohmann::json& params, const Context& context) {
  const auto program =
      params.is_object() ? params.value("program", nlohmann::json()) : nlohmann::json();
  auto made = make_active_program(program, context);
  if (!made) return made.error();
  return made.value()->form;
}

}  // namespace tt::intervene

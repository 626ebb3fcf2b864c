#include "src/intervene/parameter_values.h"

#include <algorithm>
#include <cmath>

namespace tt::intervene {

using nlohmann::json;

const graph::Parameter* find_parameter(const graph::Program& program, const std::string& name) {
  const auto found = std::ranges::find(program.parameters, name, &graph::Parameter::name);
  return found == program.parameters.end() ? nullptr : &*found;
}

base::Status check_value(const graph::Parameter& parameter, const json& value) {
  if (!value.is_number())
    return base::invalid_argument("value", "\"" + parameter.name + "\" is a number");
  const double number = value.get<double>();
  if (std::isfinite(number) && parameter.admits(number)) return {};
  const auto shown = [](double bound) { return json(bound).dump(); };
  return base::invalid_argument(
      "value", "\"" + parameter.name + "\" lies between " +
                   (parameter.min ? shown(*parameter.min) : "any number") + " and " +
                   (parameter.max ? shown(*parameter.max) : "any number") + ", not at " +
                   value.dump());
}

base::Result<std::map<std::string, double>> with_values(const graph::Program& program,
                                                        std::map<std::string, double> values,
                                                        const json& given) {
  if (!given.is_object())
    return base::invalid_argument("parameters", "must be an object of numbers");
  for (const auto& [name, value] : given.items()) {
    const graph::Parameter* parameter = find_parameter(program, name);
    if (parameter == nullptr) {
      return base::invalid_argument("parameters",
                                    "the program has no parameter \"" + name.substr(0, 64) + "\"");
    }
    if (auto status = check_value(*parameter, value); !status) return status.error();
    values[name] = value.get<double>();
  }
  return values;
}

}  // namespace tt::intervene

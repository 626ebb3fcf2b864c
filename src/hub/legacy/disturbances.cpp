#include "src/hub/legacy/disturbances.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <span>
#include <utility>

namespace tt::hub::dialect {
namespace {

using nlohmann::json;

struct Kind {
  std::string_view member;  // of disturbance_configs; also with _fn and _coef appended
  const char* name;
  std::span<const std::string_view> places;
};

constexpr std::array<std::string_view, 3> kWeights = {
    "layers[layer].attention.qkv.weight", "layers[layer].mlp.fc1.weight", "output_layer.weight"};
constexpr std::array<std::string_view, 1> kMlpOutput = {"layers[layer].mlp.output"};
constexpr std::array<std::string_view, 1> kLayerOutput = {"layers[layer].output"};
constexpr std::array<Kind, 3> kKinds = {{
    {"weight_perturbation", "megascope weight", kWeights},
    {"calculation_perturbation", "megascope calculation", kMlpOutput},
    {"system_perturbation", "megascope system", kLayerOutput},
}};

base::Error wrong_member(const std::string& name, std::string message, std::string remedy) {
  return {.code = "invalid_argument",
          .message = std::move(message),
          .where = "disturbance_configs" + (name.empty() ? "" : "." + name.substr(0, 64)),
          .remedy = std::move(remedy)};
}

base::Status check_switches(Dialect dialect, const json& configs) {
  if (!configs.is_object() && !configs.is_null()) return wrong_member("", "must be an object", "");
  for (const auto& [name, value] : configs.items()) {
    const bool known = dialect == Dialect::kMegaScope &&
                       std::ranges::find(kKinds, name, &Kind::member) != kKinds.end();
    if (is_on(value) && !known) {
      return wrong_member(name,
                          dialect == Dialect::kMegaScope
                              ? "this switch is not known"
                              : "Tensor Tracer's clients disturb nothing",
                          "send false");
    }
  }
  return {};
}

// The program line for x + N(0, coef^2), or for x * U(1 - coef, 1 + coef).
std::string line_of(std::string_view place, bool adds, const std::string& coef) {
  const std::string x(place);
  return adds ? x + " += " + coef + " * noise(" + x + ")"
              : x + " *= 1 + " + coef + " * (2 * noise(" + x + ", \"uniform\") - 1)";
}

base::Result<std::string> program_of(const Kind& kind, const json& configs) {
  const std::string fn_name = std::string(kind.member) + "_fn";
  const std::string coef_name = std::string(kind.member) + "_coef";
  const json& fn = member(configs, fn_name);
  const json& coef = member(configs, coef_name);
  if (fn != "noise1" && fn != "noise2") {
    return wrong_member(
        fn_name, "must be \"noise1\" or \"noise2\"",
        "noise1 adds numbers of deviation coef, noise2 multiplies by 1 - coef to 1 + coef");
  }
  if (!coef.is_number() || !std::isfinite(coef.get<double>()))
    return wrong_member(coef_name, "must be a finite number", "give one such as 0.05");
  std::string text = "when(phase=\"train\")";
  for (const std::string_view place : kind.places)
    text += "\n" + line_of(place, fn == "noise1", coef.dump());
  return text;
}

}  // namespace

base::Result<std::vector<Disturbance>> read_disturbances(Dialect dialect, const json& message) {
  const json& configs = member(message, "disturbance_configs");
  if (auto valid = check_switches(dialect, configs); !valid.ok()) return valid.error();
  std::vector<Disturbance> out;
  for (const Kind& kind : kKinds) {
    if (dialect != Dialect::kMegaScope) break;
    base::Result<std::string> program = std::string();
    if (is_on(member(configs, kind.member))) program = program_of(kind, configs);
    if (!program) return program.error();
    out.push_back({.name = kind.name, .program = std::move(program).value()});
  }
  return out;
}

}  // namespace tt::hub::dialect

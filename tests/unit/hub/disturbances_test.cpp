#include "src/hub/legacy/disturbances.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace tt::hub::dialect {
namespace {

using nlohmann::json;

// Programs by name, or the error.
json read(const json& configs, Dialect dialect = Dialect::kMegaScope) {
  const auto made = read_disturbances(dialect, {{"disturbance_configs", configs}});
  if (!made.ok()) return base::to_string(made.error());
  json out = json::object();
  for (const Disturbance& disturbance : made.value()) out[disturbance.name] = disturbance.program;
  return out;
}

json on(const std::string& which, const char* fn, const json& coef) {
  return {{which, true}, {which + "_fn", fn}, {which + "_coef", coef}};
}

TEST(Disturbances, AreAllOffWhereNoneIsOn) {
  const json off = {
      {"megascope weight", ""}, {"megascope calculation", ""}, {"megascope system", ""}};
  EXPECT_EQ(read({}), off);
  EXPECT_EQ(read({{"weight_perturbation", false}, {"weight_perturbation_coef", "x"}}), off);
  EXPECT_EQ(read({{"weight_perturbation", "False"}, {"other", 3}}), off);
  const auto missing = read_disturbances(Dialect::kMegaScope, {{"type", "run_training_step"}});
  ASSERT_TRUE(missing.ok());
  EXPECT_EQ(missing.value().size(), 3U);
}

TEST(Disturbances, AreProgramsOfTheirPlaces) {
  json configs = on("weight_perturbation", "noise1", 0.05);
  configs.update(on("calculation_perturbation", "noise2", 1));
  configs.update(on("system_perturbation", "noise1", -1e-20));
  configs["system_perturbation"] = "True";
  EXPECT_EQ(read(configs), json({{"megascope weight", R"(when(phase="train")
layers[layer].attention.qkv.weight += 0.05 * noise(layers[layer].attention.qkv.weight)
layers[layer].mlp.fc1.weight += 0.05 * noise(layers[layer].mlp.fc1.weight)
output_layer.weight += 0.05 * noise(output_layer.weight))"},
                                 {"megascope calculation", R"(when(phase="train")
layers[layer].mlp.output *= 1 + 1 * (2 * noise(layers[layer].mlp.output, "uniform") - 1))"},
                                 {"megascope system", R"(when(phase="train")
layers[layer].output += -1e-20 * noise(layers[layer].output))"}}));
}

TEST(Disturbances, RefuseWhatIsMissingOrWrong) {
  const std::string which = "calculation_perturbation";
  const std::string where = "disturbance_configs." + which;
  const std::string fn_error = where +
                               "_fn: must be \"noise1\" or \"noise2\"; noise1 adds numbers of "
                               "deviation coef, noise2 multiplies by 1 - coef to 1 + coef";
  const std::string coef_error = where + "_coef: must be a finite number; give one such as 0.05";
  EXPECT_EQ(read({{which, true}}), fn_error);
  EXPECT_EQ(read({{which, true}, {which + "_fn", 2}, {which + "_coef", 1}}), fn_error);
  EXPECT_EQ(read(on(which, "noise3", 0.1)), fn_error);
  EXPECT_EQ(read({{which, true}, {which + "_fn", "noise1"}}), coef_error);
  EXPECT_EQ(read(on(which, "noise2", "0.1")), coef_error);
  EXPECT_EQ(read(on(which, "noise2", "NaN")), coef_error);
  EXPECT_EQ(read(on(which, "noise2", HUGE_VAL)), coef_error);
  EXPECT_EQ(read(json::array({true})), "disturbance_configs: must be an object");
  EXPECT_EQ(read({{"mood_perturbation", true}}),
            "disturbance_configs.mood_perturbation: this switch is not known; send false");
}

TEST(Disturbances, AreNotOfTensorTracersDialect) {
  EXPECT_EQ(read({{"weight_perturbation", false}}, Dialect::kTensorTracer), json::object());
  EXPECT_EQ(read(on("weight_perturbation", "noise1", 0.1), Dialect::kTensorTracer),
            "disturbance_configs.weight_perturbation: Tensor Tracer's clients disturb nothing; "
            "send false");
}

}  // namespace
}  // namespace tt::hub::dialect

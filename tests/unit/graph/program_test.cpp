#include "tensor_tracer/graph/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/unit/graph/samples.h"

namespace tt::graph {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

Program parsed(std::string_view text) {
  auto program = parse_program(text, test_model());
  EXPECT_TRUE(program.ok()) << text << "\n" << (program.ok() ? "" : program.error().message);
  return program.ok() ? std::move(program).value() : Program{};
}

std::vector<LeafKind> kinds_of(const Value& value) {
  std::vector<LeafKind> kinds;
  for (const Leaf& leaf : value.leaves) kinds.push_back(leaf.kind);
  return kinds;
}

TEST(Program, ResolvesNamesPlacesAndVectors) {
  const Program program = parsed(kSamples[0]);
  ASSERT_EQ(program.parameters.size(), 1U);
  EXPECT_EQ(program.parameters[0].name, "alpha");
  EXPECT_EQ(program.parameters[0].value, 4.0);
  EXPECT_EQ(program.parameters[0].max, 20.0);
  ASSERT_EQ(program.values.size(), 3U);
  EXPECT_EQ(program.values[0].name, "h");
  EXPECT_THAT(kinds_of(program.values[0]), ElementsAre(LeafKind::kPlace));
  EXPECT_EQ(program.values[0].leaves[0].node, program.values[0].root);
  EXPECT_THAT(kinds_of(program.values[1]),
              ElementsAre(LeafKind::kBinding, LeafKind::kParameter, LeafKind::kVector));
  EXPECT_EQ(program.values[1].leaves[0].value, 0U);
  EXPECT_EQ(program.values[1].leaves[2].name, "evil");
  EXPECT_EQ(program.values[1].leaves[2].row.number, 12);
  ASSERT_EQ(program.effects.size(), 2U);
  EXPECT_EQ(to_string(program.effects[0].place), "layers[12].output");
  EXPECT_EQ(program.effects[0].index, expr::kNoNode);
  EXPECT_EQ(program.effects[1].kind, EffectKind::kSave);
  EXPECT_EQ(program.effects[1].name, "late_norm");
  EXPECT_TRUE(program.effects[1].sends);
  EXPECT_EQ(program.effects[1].value, 2U);
}

// In a layer alone these words are places.
TEST(Program, OutputAndMidAreNamesLikeOthers) {
  const Program program = parsed("output = logits\nmid = 2 * output\nlogits = mid");
  ASSERT_EQ(program.values.size(), 3U);
  EXPECT_EQ(program.values[0].name, "output");
  EXPECT_THAT(kinds_of(program.values[1]), ElementsAre(LeafKind::kBinding));
  EXPECT_THAT(kinds_of(program.values[2]), ElementsAre(LeafKind::kBinding));
}

TEST(Program, ReadsEveryLeaf) {
  const Program program = parsed(
      "save(layers[3].mid + noise(logits, \"uniform\", seed=9), \"a\")\n"
      "when(layers=\"2\")\n"
      "save(saved(\"a\") + file(\"f.st\")[\"t\"] + layer + vector(\"v\")[layer - 1], \"b\")");
  EXPECT_THAT(kinds_of(program.values[0]), ElementsAre(LeafKind::kPlace, LeafKind::kNoise));
  const Leaf& noise = program.values[0].leaves[1];
  EXPECT_EQ(noise.place.point, "Logits");
  EXPECT_EQ(noise.key, "uniform");
  EXPECT_EQ(noise.seed, 9);
  EXPECT_THAT(kinds_of(program.values[1]),
              ElementsAre(LeafKind::kSaved, LeafKind::kFile, LeafKind::kLayer, LeafKind::kVector));
  EXPECT_EQ(program.values[1].leaves[0].name, "a");
  EXPECT_EQ(program.values[1].leaves[1].name, "f.st");
  EXPECT_EQ(program.values[1].leaves[1].key, "t");
  EXPECT_TRUE(program.values[1].leaves[3].row.is_each);
  EXPECT_EQ(program.values[1].leaves[3].row.at(2), 1);
  EXPECT_FALSE(is_each(program, program.effects[0]));
  EXPECT_TRUE(is_each(program, program.effects[1]));
}

TEST(Program, WhatIsSavedForEachLayerIsReadForEachLayer) {
  const Program program = parsed(
      "logits = saved(\"a\").mean()\nx = saved(\"a\")\n"
      "save(layers[layer].output, \"a\")\nsave(tokens, \"b\")\nwhen(layers=\"1-3\")");
  EXPECT_TRUE(is_each(program, program.effects[0]));
  EXPECT_TRUE(is_each(program, program.effects[1]));
  EXPECT_FALSE(is_each(program, program.effects[2]));
}

TEST(Program, AWriteKnowsItsIndexItsHeadsAndItsCondition) {
  const Program program = parsed(
      "h = layers[4].output\nif h.mean() > 0: layers[4].attention.output.grad[:, -1] *= 2\n"
      "layers[3].attention.context.heads[1:3] = 0");
  const Effect& write = program.effects[0];
  EXPECT_TRUE(write.place.gradient);
  EXPECT_EQ(program.ast().node(write.index).kind, expr::Kind::kTuple);
  ASSERT_TRUE(write.condition.has_value());
  EXPECT_EQ(*write.condition, 1U);
  EXPECT_EQ(write.value, 2U);
  EXPECT_EQ(program.ast().node(program.effects[1].place.heads).kind, expr::Kind::kSlice);
  EXPECT_EQ(program.effects[1].index, expr::kNoNode);
}

TEST(Program, ACompoundAssignmentReadsItsPlaceOnce) {
  const Program program = parsed("layers[4].output[:, -1] += 1");
  ASSERT_EQ(program.values[0].leaves.size(), 1U);
  EXPECT_EQ(to_string(program.values[0].leaves[0].place), "layers[4].output");
}

constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();

Schedule schedule(const std::string& arguments) {
  return parsed("when(" + arguments + ")\nlogits[:, -1] = 0").when;
}

TEST(Schedule, IsTrainingUnlessSaidOtherwise) {
  const Schedule when = parsed("logits = 0").when;
  EXPECT_TRUE(when.in_train);
  EXPECT_FALSE(when.in_eval);
  EXPECT_THAT(when.prompt_sets, IsEmpty());
  EXPECT_THAT(when.layers, IsEmpty());
  EXPECT_EQ(when.every, 1);
}

TEST(Schedule, Phases) {
  EXPECT_TRUE(schedule("phase=\"eval\"").in_eval);
  EXPECT_FALSE(schedule("phase=\"eval\"").in_train);
  EXPECT_TRUE(schedule("phase=\"train,eval\"").in_train);
  EXPECT_TRUE(schedule("phase=\"train,eval\"").in_eval);
  EXPECT_TRUE(schedule("phase=\"all\"").in_eval);
  EXPECT_THAT(schedule("phase=\"all\"").prompt_sets, ElementsAre("*"));
  EXPECT_FALSE(schedule("prompts=\"probes\"").in_train);
  EXPECT_THAT(schedule("prompts=\"probes, chat\"").prompt_sets, ElementsAre("probes", "chat"));
  EXPECT_TRUE(schedule("prompts=\"*\", phase=\"train\"").in_train);
}

TEST(Schedule, Ranges) {
  EXPECT_THAT(schedule("steps=\"5, 10\"").steps, ElementsAre(Pair(5, 5), Pair(10, 10)));
  EXPECT_THAT(schedule("steps=\"100-\"").steps, ElementsAre(Pair(100, kEnd)));
  EXPECT_THAT(schedule("rows=\"0-3,8\"").rows, ElementsAre(Pair(0, 3), Pair(8, 8)));
  EXPECT_THAT(schedule("tokens=\"-1\"").tokens, ElementsAre(Pair(-1, -1)));
  EXPECT_EQ(schedule("every=3").every, 3);
  EXPECT_EQ(schedule("token_text=\" not\"").token_text, " not");
}

TEST(Schedule, PositionsAreAllUnlessNamed) {
  EXPECT_EQ(schedule("every=3").positions, Positions::kAll);
  EXPECT_EQ(schedule("positions=\"all\"").positions, Positions::kAll);
  EXPECT_EQ(schedule("positions=\"prompt\"").positions, Positions::kPrompt);
  EXPECT_EQ(schedule("positions=\"response\"").positions, Positions::kResponse);
  EXPECT_EQ(schedule("positions=\"published\"").positions, Positions::kPublished);
}

TEST(Schedule, LayersAreThoseNamedOrAll) {
  const std::string write = "\nlayers[layer].output *= 2";
  EXPECT_THAT(parsed("when(layers=\"20-,3,2-4\")" + write).when.layers,
              ElementsAre(2, 3, 4, 20, 21, 22, 23, 24));
  EXPECT_EQ(parsed("when(steps=\"1\")" + write).when.layers.size(), 24U);
  EXPECT_TRUE(parsed("logits *= 1" + write).uses_each_layer);
}

TEST(Parameter, AdmitsWhatLiesBetween) {
  const Parameter parameter = parsed("a = param(1, min=-1, max=2.5)\nlogits = a").parameters[0];
  EXPECT_TRUE(parameter.admits(-1));
  EXPECT_TRUE(parameter.admits(2.5));
  EXPECT_FALSE(parameter.admits(2.6));
  EXPECT_FALSE(parameter.admits(-1.1));
  EXPECT_FALSE(parameter.admits(std::numeric_limits<double>::quiet_NaN()));
  EXPECT_FALSE(Parameter{}.admits(std::numeric_limits<double>::infinity()));
}

TEST(Parameter, RampsFromItsStartToItsValue) {
  const Parameter parameter =
      parsed("a = param(4.0, ramp_from=-1.0, ramp_steps=100)\nlogits = a").parameters[0];
  EXPECT_EQ(parameter.in_step(4.0, 0), -1.0);
  EXPECT_EQ(parameter.in_step(4.0, 50), 1.5);
  EXPECT_EQ(parameter.in_step(4.0, 100), 4.0);
  EXPECT_EQ(parameter.in_step(3.0, 1000), 3.0);
  EXPECT_EQ(Parameter{}.in_step(7.0, 0), 7.0);
}

TEST(Program, EverySampleIsSound) {
  for (const std::string_view sample : kSamples) EXPECT_NE(parsed(sample).script, nullptr);
}

}  // namespace
}  // namespace tt::graph

#include "src/intervene/stages.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "src/intervene/specialization.h"
#include "tensor_tracer/intervene/engine.h"
#include "tensor_tracer/points/place_table_builder.h"

namespace tt::intervene {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// Layers 1 and 2 are on stage 0, layers 3 and 4 and the logits on stage 1.
std::shared_ptr<const points::PlaceTable> two_stages(bool every_stage_has_tokens) {
  points::PlaceTableBuilder builder(4, {.batch = 2, .sequence = 3});
  const auto add = [&builder](const char* path) {
    points::Place place{.path = path};
    place.features = 4;
    place.gradient = mesh::Placement::replicate();
    return builder.add(std::move(place));
  };
  builder.add({.name = "InputTokens",
               .path = "tokens",
               .stage = every_stage_has_tokens ? points::kEveryStage : 0,
               .legacy_flag = 8,
               .writable = false,
               .dims = {"ids_positions", "batch", "sequence"}});
  const points::PlaceKey embedding = add("embedding.output");
  points::PlaceKey output;
  for (int layer = 1; layer <= 4; ++layer) {
    if (layer == 3) builder.begin_stage(1);
    builder.begin_layer(layer);
    add("mlp.output");
    output = add("output");
  }
  builder.end_layers();
  add("logits");
  builder.set_layer_ends(embedding, output);
  return std::make_shared<const points::PlaceTable>(builder.build());
}

Context context_of(bool every_stage_has_tokens = false) {
  Context context;
  context.model.places = two_stages(every_stage_has_tokens);
  context.micro_batch_size = 2;
  context.seq_length = 3;
  return context;
}

std::string stages_of(const std::string& text, bool every_stage_has_tokens = false) {
  const Context context = context_of(every_stage_has_tokens);
  const auto program = graph::parse_program(text, context.model);
  if (!program) return to_string(program.error());
  const auto stages = find_stages(program.value(), layers_of(program.value()), context.places());
  return stages ? json(stages.value()).dump() : to_string(stages.error());
}

TEST(Stages, AnEffectRunsAtTheStageOfItsPlaces) {
  EXPECT_EQ(stages_of("layers[2].output *= 2"), "[[0]]");
  EXPECT_EQ(stages_of("layers[3].output *= 2\nlogits += 1\nembedding.output += 1"), "[[1,1,0]]");
  EXPECT_EQ(stages_of("layers[layer].output *= 2\nwhen(layers=\"2-3\")"), "[[0],[1]]");
  EXPECT_EQ(stages_of("skip(layers[4])"), "[[1]]");
  EXPECT_EQ(stages_of("a = layers[4].mlp.output\nsave(a, \"a\")"), "[[1]]");
  EXPECT_EQ(stages_of("layers[3].output.grad *= 0"), "[[1]]");
  EXPECT_EQ(stages_of("save(output_layer(layers[3].output), \"a\")"), "[[1]]");
}

TEST(Stages, ALineWithValuesOfTwoStagesIsRefused) {
  for (const char* text : {"a = layers[2].output\nlayers[3].mlp.output += a",
                           "save(layers[2].output, \"a\")\nlayers[3].mlp.output += saved(\"a\")",
                           "if layers[1].output.mean() > 0: skip(layers[3])",
                           "save(final_norm(layers[1].output), \"a\")",
                           "save(layers[2].output + layers[3].output, \"a\")"})
    EXPECT_THAT(stages_of(text), HasSubstr("use places of one stage in a line")) << text;
  EXPECT_THAT(stages_of("layers[layer].output += layers[layer - 1].output\nwhen(layers=\"2-3\")"),
              HasSubstr("layers[3].output of pipeline stage 1 and layers[2].output of stage 0"));
}

TEST(Stages, LaterStagesNeedTheTokensToFindText) {
  const std::string last = "when(token_text=\"a\")\nlayers[3].output *= 2";
  EXPECT_THAT(stages_of(last), HasSubstr("pipeline stage 1 does not get"));
  EXPECT_EQ(stages_of(last, true), "[[1]]");
  EXPECT_EQ(stages_of("when(token_text=\"a\")\nlayers[2].output *= 2"), "[[0]]");
}

class TwoStages : public testing::Test {
 protected:
  void apply(const std::string& text) {
    const auto answer = engine_->request(protocol::ApplyProgram{.name = "p", .program = text}, 2);
    ASSERT_TRUE(answer.ok()) << to_string(answer.error());
    ASSERT_TRUE(engine_->prepare(engine_->take_changes(2)).ok());
    engine_->install(true);
  }
  std::unique_ptr<trace::InterventionPass> begin(int stage) {
    return engine_->begin({.step = 2, .stage = stage}, at::zeros({2, 3}, at::kLong));
  }
  points::PlaceKey output(int layer) const { return context_.places().key("output", layer); }

  const Context context_ = context_of();
  const std::unique_ptr<trace::InterventionHooks> engine_ =
      make_engine(context_, comm::ProcessGroup(), comm::ProcessGroup());
};

TEST_F(TwoStages, APassHasTheEffectsOfItsStageAndAForwardCountsOnce) {
  apply("layers[layer].output *= 2\nwhen(layers=\"2-3\")");
  const auto first = begin(0), second = begin(1);
  EXPECT_TRUE(first->acts_at(output(2)) && second->acts_at(output(3)));
  EXPECT_FALSE(first->acts_at(output(3)) || second->acts_at(output(2)));
  const at::Tensor ones = at::ones({2, 3, 4});
  EXPECT_TRUE(first->at_point(output(2), ones).equal(ones * 2));
  EXPECT_TRUE(second->at_point(output(3), ones).equal(ones * 2));
  second->end();
  first->end();
  const json told = engine_->report(2).value()["programs"][0];
  EXPECT_EQ(told["forwards"], 1);
  EXPECT_EQ(told["positions"], 12);
}

TEST_F(TwoStages, AProgramOfAnotherStageIsNotInThePass) {
  apply("layers[3].output *= 2");
  EXPECT_EQ(begin(0), nullptr);
  EXPECT_EQ(engine_->report(2).value()["programs"][0]["of_ranks"], 0);
  EXPECT_NE(begin(1), nullptr);
  EXPECT_EQ(engine_->report(2).value()["programs"][0]["of_ranks"], 1);
}

TEST_F(TwoStages, EachStageKeepsWhatItSaves) {
  apply(
      "save(layers[layer].mlp.output, \"a\", send=False)\n"
      "layers[layer].output += saved(\"a\")\nwhen(layers=\"2-3\")");
  const at::Tensor ones = at::ones({2, 3, 4});
  for (const bool has_saved : {false, true}) {
    const auto first = begin(0), second = begin(1);
    int layer = 2;
    for (const auto* pass : {&first, &second}) {
      (*pass)->at_point(context_.places().key("mlp.output", layer), ones);
      EXPECT_TRUE((*pass)->at_point(output(layer), ones).equal(has_saved ? ones * 2 : ones));
      ++layer;
    }
    first->end();
    second->end();
  }
}

}  // namespace
}  // namespace tt::intervene

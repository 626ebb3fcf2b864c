#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tensor_tracer/intervene/engine.h"
#include "tests/unit/intervene/made_up_forward.h"

namespace tt::intervene {
namespace {

using nlohmann::json;
using testing::ElementsAre;

class CountingFiles : public trace::TensorFiles {
 public:
  int reads = 0;
  base::Result<at::Tensor> find(const std::string&, const std::string&) override {
    ++reads;
    return at::ones({64});
  }
};

// The requests of a controller, and what all ranks do with them between two steps.
class Controlled {
 public:
  Controlled() : engine_(context(), group_, group_) {}

  void apply(const std::string& name, const std::string& program) {
    const auto answer =
        engine_.request("intervention.apply", {{"name", name}, {"program", program}}, 7);
    ASSERT_TRUE(answer.ok()) << to_string(answer.error());
  }
  void request(const std::string& method, const json& params) {
    const auto answer = engine_.request(method, params, 7);
    ASSERT_TRUE(answer.ok()) << to_string(answer.error());
  }
  /// `could`: whether the other ranks could make it ready.
  void at_boundary(bool could) {
    const std::string changes = engine_.take_changes(7);
    ASSERT_FALSE(changes.empty());
    ASSERT_TRUE(engine_.prepare(changes).ok());
    engine_.install(could);
  }
  std::vector<std::string> in_force() {
    std::vector<std::string> names;
    const json told = engine_.describe(7);
    for (const json& one : told["programs"]) names.push_back(one["name"]);
    return names;
  }
  Engine& engine() { return engine_; }
  int reads() const { return files_.reads; }

 private:
  Context context() {
    Context context = made_up_context(4, group_, at::kFloat);
    context.files = &files_;
    context.model.prompt_sets = {"probes"};
    return context;
  }

  CountingFiles files_;
  comm::ProcessGroup group_;
  Engine engine_;
};

TEST(Programs, WhatWasRemovedBesideOneThatARankCouldNotTakeStaysRemoved) {
  Controlled run;
  for (const char* name : {"old", "kept", "replaced"}) run.apply(name, "layers[1].output *= 2");
  run.at_boundary(true);
  run.request("intervention.remove", {{"name", "old"}});
  run.apply("replaced", "layers[1].output *= 3");
  run.apply("new", "layers[1].output *= 4");
  run.at_boundary(false);
  EXPECT_THAT(run.in_force(), ElementsAre("old", "kept", "replaced"));
  ASSERT_TRUE(run.engine().has_changes()) << "the removal is shared once more";
  run.at_boundary(true);
  EXPECT_THAT(run.in_force(), ElementsAre("kept", "replaced"));
  EXPECT_EQ(run.engine().describe(7)["programs"][1]["text"], "layers[1].output *= 2");
  EXPECT_FALSE(run.engine().has_changes());
}

TEST(Programs, AProgramThatARankCouldNotTakeLeavesNothingToShare) {
  Controlled run;
  run.apply("old", "layers[1].output *= 2");
  run.at_boundary(true);
  run.apply("new", "layers[1].output *= 4");
  run.at_boundary(false);
  EXPECT_FALSE(run.engine().has_changes());
  EXPECT_THAT(run.in_force(), ElementsAre("old"));
}

TEST(Programs, AFileIsReadOnceForAllLayersAndShapes) {
  Controlled run;
  run.apply("patch", "layers[layer].output += file(\"a\")[\"b\"]");
  const int reads = run.reads();  // to check the request
  EXPECT_EQ(reads, 1);
  run.at_boundary(true);
  EXPECT_EQ(run.reads(), reads + 1);
  for (const std::int64_t sequence : {5, 3}) {
    run.engine().begin_forward({8, 0, 0, trace::Phase::kTrain},
                               at::zeros({4, sequence}, at::kLong));
    run.engine().end_pass();
  }
  EXPECT_EQ(run.reads(), reads + 1);
}

// Zeros fill prompts up to the longest of their set.
TEST(Programs, TheLastTokenOfAPromptIsItsOwn) {
  Controlled run;
  run.apply("last", "when(prompts=\"*\", tokens=\"-2,-1\")\nlayers[1].output = 0");
  run.at_boundary(true);
  const at::Tensor tokens = at::tensor({72, 105, 0, 0, 0, 79, 110, 99, 101, 46}, at::kLong);
  trace::ForwardScope scope{8, 0, 0, trace::Phase::kEval, 1};
  EXPECT_TRUE(run.engine().begin_forward(scope, tokens.view({2, 5})));
  const at::Tensor out =
      run.engine().at_point(trace::PointFlag::kHiddenStates, 1, at::ones({2, 5, 64}));
  run.engine().end_pass();
  const at::Tensor left = at::tensor({0, 0, 1, 1, 1, 1, 1, 1, 0, 0}, at::kFloat);
  EXPECT_TRUE(at::equal(out.select(2, 0), left.view({2, 5}))) << out.select(2, 0);
}

}  // namespace
}  // namespace tt::intervene

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "src/intervene/active_program.h"
#include "tensor_tracer/intervene/check.h"
#include "tensor_tracer/intervene/engine.h"
#include "tests/unit/intervene/made_up_forward.h"

namespace tt::intervene {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

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

// What is left of ones where these tokens of two prompts are written with 0.
at::Tensor left_by(const std::string& tokens) {
  Controlled run;
  run.apply("p", "when(prompts=\"*\", tokens=\"" + tokens + "\")\nlayers[1].output = 0");
  run.at_boundary(true);
  const at::Tensor ids = at::tensor({72, 105, 0, 0, 0, 79, 110, 99, 101, 46}, at::kLong);
  trace::ForwardScope scope{8, 0, 0, trace::Phase::kEval, 1};
  EXPECT_TRUE(run.engine().begin_forward(scope, ids.view({2, 5})));
  const at::Tensor out =
      run.engine().at_point(trace::PointFlag::kHiddenStates, 1, at::ones({2, 5, 64}));
  run.engine().end_pass();
  return out.select(2, 0).flatten().to(at::kLong);
}

// Zeros fill prompts up to the longest of their set.
TEST(Programs, TheLastTokenOfAPromptIsItsOwn) {
  const at::Tensor last = at::tensor({0, 0, 1, 1, 1, 1, 1, 1, 0, 0}, at::kLong);
  EXPECT_TRUE(at::equal(left_by("-2,-1"), last));
  const at::Tensor first = at::tensor({0, 0, 1, 1, 1, 0, 0, 1, 1, 1}, at::kLong);
  EXPECT_TRUE(at::equal(left_by("0-1"), first)) << "what fills a prompt up is not its beginning";
}

// The refusal of a program for a model with these micro-batches; empty: it is taken.
std::string refusal(const std::string& program, std::int64_t batch = 4, std::int64_t sequence = 5) {
  const comm::ProcessGroup group;
  Context context = made_up_context(4, group, at::kFloat);
  context.micro_batch_size = batch;
  context.seq_length = sequence;
  const auto checked = check_program({{"program", program}}, context);
  return checked.ok() ? "" : checked.error().message;
}

TEST(Budget, APlaceOfAnySizeCanBeWritten) {
  for (const char* program :
       {"h = layers[1].output\nlayers[1].output = h + 2 * vector(\"evil\")[1]",
        "layers[layer].output *= 0.9", "h = logits\nlogits = where(h > 3, 3.0, h)"}) {
    EXPECT_EQ(refusal(program, 16, 1 << 18), "") << program;
  }
}

TEST(Budget, OfTheElementsOfAValue) {
  const auto program = [](const std::string& size) {
    return "x = ones(1).expand(" + size + ")\nlayers[1].output *= x[0]";
  };
  EXPECT_EQ(refusal(program("2147483648")), "");
  EXPECT_THAT(refusal(program("2147483649")), HasSubstr("elements, the limit is 2147483648"));
}

// 512 MiB at a time.
TEST(Budget, HasRoomForWhatIsHeldAtOneTime) {
  const auto line = [](const std::string& name, int layer) {
    return name + " = ones(134217728) * layers[" + std::to_string(layer) + "].output.mean()\n";
  };
  const std::string three = line("a", 1) + line("b", 1) + "layers[1].output *= a[0] * b[0]\n" +
                            line("c", 2) + line("d", 2) + "layers[2].output *= c[0] * d[0]";
  EXPECT_EQ(refusal(three), "") << "a and b are freed before c is computed";
  const std::string all = line("a", 1) + line("b", 1) + line("c", 2) + line("d", 2) +
                          "layers[2].output *= a[0] * b[0] * c[0] * d[0]";
  EXPECT_THAT(refusal(all), HasSubstr("bytes at one time, the limit is 2147"));
  const std::string view = line("a", 1) + "b = a[:1]\n" + line("c", 1) + "d = c[:1]\n" +
                           line("f", 2) + "g = f[:1]\n" + line("k", 2) + "m = k[:1]\n" +
                           "layers[2].output *= b * d * g * m";
  EXPECT_THAT(refusal(view), HasSubstr("bytes at one time")) << "views keep what they show";
}

TEST(Budget, IsThatOfAllLayers) {
  EXPECT_EQ(refusal("layers[layer].output *= (eye(3000) @ eye(3000))[0, 0]"), "");
  EXPECT_THAT(refusal("layers[layer].output *= (eye(4000) @ eye(4000))[0, 0]"),
              HasSubstr("in one forward the program costs about 19"));
}

TEST(Names, OfVectorsAndSavesHideNothing) {
  EXPECT_EQ(refusal("v = vector(\"norm\")[1]\nlayers[1].output += v / norm(v)"), "");
  EXPECT_EQ(refusal("h = layers[1].output\nsave(0.1 * norm(h, dim=-1), \"norm\")\n"
                    "save(0.9 * saved(\"norm\") + norm(h, dim=-1), \"next\")"),
            "");
}

TEST(Names, OfSavesDoNotCollideOverLayers) {
  EXPECT_NE(saved_name("a@3", 0), saved_name("a", 3));
  EXPECT_NE(saved_name("3@a", 0), saved_name("a", 3));
}

TEST(Conditions, OfASaveAreOneTruthValue) {
  EXPECT_EQ(refusal("if layers[1].output.mean() > 0: save(1, \"x\")"), "");
  EXPECT_THAT(refusal("if layers[1].output > 0: save(1, \"x\")"), HasSubstr("a mask of shape"));
  EXPECT_THAT(refusal("if layers[1].output.mean(): save(1, \"x\")"),
              HasSubstr("the condition of a save is one truth value"));
}

TEST(Writes, NameEachPositionOnce) {
  EXPECT_EQ(refusal("layers[1].output[:, [0, 4]] = 0"), "");
  EXPECT_THAT(refusal("layers[1].output[:, [0, 0]] = 0"), HasSubstr("written twice"));
  EXPECT_THAT(refusal("layers[1].output[:, [0, -5]] = 0"), HasSubstr("written twice"));
  EXPECT_THAT(refusal("layers[1].attention.context.heads[[1, 1]] = 0"), HasSubstr("written twice"));
}

TEST(Writes, TakeAnyNumbers) {
  EXPECT_EQ(refusal("layers[1].output = tokens.int()[..., None]"), "");
  EXPECT_THAT(refusal("layers[1].output = tokens[..., None] > 3"), HasSubstr("not a mask"));
}

TEST(Gradients, StopAtDivisionsThatTheyReachAlone) {
  EXPECT_EQ(refusal("layers[1].output *= (tokens // 2)[..., None]"), "");
  EXPECT_EQ(refusal("layers[1].output *= layers[1].output.detach() // 2"), "");
  EXPECT_EQ(refusal("layers[1].output *= layers[1].output.long() // 2"), "");
  EXPECT_THAT(refusal("layers[1].output *= layers[1].output.exp() // 2"),
              HasSubstr("no gradient flows"));
}

// The number that comes of it where layers[1].output is float32 ones.
double saved_of(const std::string& expression) {
  Controlled run;
  run.apply("p", "a = param(0.1)\nk = 0.1\nb = a + 0\nsave(" + expression + ", \"x\")");
  run.at_boundary(true);
  EXPECT_TRUE(
      run.engine().begin_forward({8, 0, 0, trace::Phase::kTrain}, at::zeros({4, 5}, at::kLong)));
  run.engine().at_point(trace::PointFlag::kHiddenStates, 1, at::ones({4, 5, 64}));
  run.engine().end_pass();
  const auto saved = run.engine().take_saved();
  return saved.empty() ? std::nan("") : saved[0]["values"][0].get<double>();
}

// Of tensors without dims the larger dtype would win: 0.1 would make a float64 of a float32.
TEST(Parameters, AndNumbersPromoteAsPythonNumbersDo) {
  for (const char* factor : {"a", "2 * a / 2", "k", "b"}) {
    EXPECT_EQ(saved_of(std::string("layers[1].output.mean() * ") + factor), 0.1F) << factor;
  }
}

TEST(Parameters, AndNumbersAreFloat64AmongThemselves) {
  EXPECT_EQ(saved_of("a * 3.3"), 0.1 * 3.3);
  EXPECT_EQ(saved_of("b * b - k"), 0.1 * 0.1 - 0.1);
  EXPECT_EQ(saved_of("(a * b < 0.1 * 0.1 + 1e-12).float()"), 1.0);
}

}  // namespace
}  // namespace tt::intervene

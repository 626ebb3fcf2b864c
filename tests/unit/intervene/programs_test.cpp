#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "src/intervene/active_program.h"
#include "src/intervene/program_cache.h"
#include "tensor_tracer/intervene/engine.h"
#include "tensor_tracer/trace/prompt_plan.h"
#include "tests/unit/intervene/made_up_forward.h"

namespace tt::intervene {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

class CountingFiles : public trace::TensorFiles {
 public:
  int reads = 0;
  at::Tensor content = at::ones({64});
  base::Result<at::Tensor> find(const std::string&, const std::string&) override {
    ++reads;
    return content;
  }
};

class ChangingVector : public trace::VectorLibrary {
 public:
  float number = 1.0F;
  std::vector<std::string> names() override { return {"evil"}; }
  base::Result<std::shared_ptr<const trace::DirectionVector>> find(const std::string&) override {
    return std::make_shared<const trace::DirectionVector>(trace::DirectionVector{
        "evil", 64, true, std::vector<float>(std::size_t{64} * 100, number)});
  }
};

// The requests of a controller, and what all ranks do with them between two steps.
class Controlled {
 public:
  Controlled() : context_(make_context()), engine_(make_engine(context_, group_, group_)) {}

  void apply(const std::string& name, const json& program) {
    request(protocol::ApplyProgram{.name = name, .program = program});
  }
  void request(const protocol::ProgramRequest& request) {
    const auto answer = engine_->request(request, 7);
    ASSERT_TRUE(answer.ok()) << to_string(answer.error());
  }
  /// `could`: whether the other ranks could make it ready.
  void at_boundary(bool could) {
    const trace::ProgramChanges changes = engine_->take_changes(7);
    ASSERT_FALSE(changes.text.empty());
    ASSERT_TRUE(engine_->prepare(changes).ok());
    engine_->install(could);
  }
  std::vector<std::string> in_force() {
    std::vector<std::string> names;
    const json told = engine_->describe(7);
    for (const json& one : told["programs"]) names.push_back(one["name"]);
    return names;
  }
  trace::InterventionHooks& engine() { return *engine_; }
  int reads() const { return files_.reads; }
  CountingFiles& files() { return files_; }
  ChangingVector& vectors() { return vectors_; }
  base::Result<json> check(const json& program) { return check_program(program, context_); }
  std::int64_t num_compiled() const { return context_.programs->num_compiled(); }

 private:
  Context make_context() {
    Context context = made_up_context(4, group_, at::kFloat);
    context.files = &files_;
    context.vectors = &vectors_;
    context.model.prompt_sets = points::PromptSets({{"probes"}});
    return context;
  }

  CountingFiles files_;
  ChangingVector vectors_;
  comm::ProcessGroup group_;
  Context context_;
  const std::unique_ptr<trace::InterventionHooks> engine_;
};

TEST(Programs, WhatWasRemovedBesideOneThatARankCouldNotTakeStaysRemoved) {
  Controlled run;
  for (const char* name : {"old", "kept", "replaced"}) run.apply(name, "layers[1].output *= 2");
  run.at_boundary(true);
  run.request(protocol::RemovePrograms{"old"});
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

TEST(Programs, ARankWithoutFilesTakesTheirContentsWithTheProgram) {
  Controlled first;
  const std::string text = "layers[1].output += file(\"a\")[\"b\"]";
  const comm::ProcessGroup group;
  const auto engine = make_engine(made_up_context(4, group, at::kFloat), group, group);
  trace::InterventionHooks& other = *engine;
  const json asked = {{"program", text}};
  EXPECT_FALSE(other.begin_preview(asked, {}, trace::Phase::kTrain).ok());
  const auto contents = first.engine().read_files(asked);
  ASSERT_TRUE(contents.ok());
  EXPECT_TRUE(other.begin_preview(asked, contents.value(), trace::Phase::kTrain).ok());
  other.end_preview();
  first.apply("patch", text);
  EXPECT_TRUE(other.prepare(first.engine().take_changes(7)).ok());
  other.install(true);
  EXPECT_EQ(other.describe(7)["programs"].size(), 1U);
}

TEST(Programs, AFileIsReadOnceForAllLayersAndShapes) {
  Controlled run;
  run.apply("patch", "layers[layer].output += file(\"a\")[\"b\"]");
  EXPECT_EQ(run.reads(), 1);
  run.at_boundary(true);
  for (const std::int64_t sequence : {5, 3})
    run.engine().begin({8, 0, 0, trace::Phase::kTrain}, at::zeros({4, sequence}, at::kLong))->end();
  EXPECT_EQ(run.reads(), 1);
}

// As in the page: a program is checked while it is typed, previewed, applied, and its slider moved.
void expect_compiled_once(Controlled& run, const json& program) {
  const std::int64_t before = run.num_compiled();
  ASSERT_TRUE(run.check(program).ok());
  ASSERT_TRUE(run.engine().begin_preview({{"program", program}}, {}, trace::Phase::kTrain).ok());
  run.engine().end_preview();
  run.apply("p", program);
  run.at_boundary(true);
  run.request(protocol::SetParameter{.name = "p", .parameter = "alpha", .value = 3.0});
  run.at_boundary(true);
  EXPECT_EQ(run.engine().describe(7)["programs"][0]["parameters"][0]["value"], 3.0);
  EXPECT_EQ(run.num_compiled(), before + 1);
}

TEST(Programs, AreCompiledOnceFromTheCheckToTheSlider) {
  Controlled run;
  const std::string text = "alpha = param(2.0)\nlayers[1].output *= alpha";
  expect_compiled_once(run, text);
  expect_compiled_once(run, run.check(text).value()["graph"]);
}

// Shapes and operators are checked on the tree: what is wrong is about a node.
TEST(Programs, ThatAreGraphsAreRefusedByNode) {
  Controlled run;
  const auto refused = run.check(json::parse(R"({"version": 1, "nodes": [
    {"id": "h", "type": "getter", "point": "HiddenStates", "layer": 1},
    {"id": "m", "type": "operator", "operator": "maen", "form": "method", "arguments": [{"node": "h"}]},
    {"id": "s", "type": "save", "name": "x", "value": {"node": "m"}}]})"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "invalid_graph");
  EXPECT_EQ(refused.error().where, "m");
  EXPECT_THAT(refused.error().message,
              HasSubstr("(node m)\n  save(layers[1].output.maen(), \"x\")\n"));
}

TEST(Programs, ThatAreStartedTogetherAreCompiledOnceEach) {
  Controlled run;
  const auto program = [](std::size_t i) { return "layers[1].output *= " + std::to_string(i); };
  for (std::size_t i = 0; i < kMaxPrograms; ++i) ASSERT_TRUE(run.check(program(i)).ok());
  for (std::size_t i = 0; i < kMaxPrograms; ++i) run.apply(std::to_string(i), program(i));
  run.at_boundary(true);
  EXPECT_EQ(run.num_compiled(), kMaxPrograms);
  ASSERT_TRUE(run.check(program(kMaxPrograms)).ok());
  ASSERT_TRUE(run.check(program(0)).ok());
  EXPECT_EQ(run.num_compiled(), kMaxPrograms + 2) << "the first one of 33 is forgotten";
}

TEST(Programs, WhoseFileHasChangedAreCompiledAnew) {
  Controlled run;
  const std::string program = "layers[1].output = file(\"a\")[\"b\"]";
  ASSERT_TRUE(run.check(program).ok());
  ASSERT_TRUE(run.check(program).ok());
  EXPECT_EQ(run.num_compiled(), 1);
  run.files().content = at::full({64}, 2.0);
  run.apply("p", program);
  run.at_boundary(true);
  EXPECT_EQ(run.num_compiled(), 2);
  const auto pass =
      run.engine().begin({8, 0, 0, trace::Phase::kTrain}, at::zeros({4, 5}, at::kLong));
  const at::Tensor out = pass->at_point(hidden_states(1), at::ones({4, 5, 64}));
  pass->end();
  EXPECT_TRUE(at::equal(out, at::full({4, 5, 64}, 2.0)));
}

TEST(Programs, WhoseVectorHasChangedAreCompiledAnew) {
  Controlled run;
  const std::string program = "layers[1].output += vector(\"evil\")[1]";
  ASSERT_TRUE(run.check(program).ok());
  ASSERT_TRUE(run.check(program).ok());
  EXPECT_EQ(run.num_compiled(), 1);
  run.vectors().number = 2.0F;
  ASSERT_TRUE(run.check(program).ok());
  EXPECT_EQ(run.num_compiled(), 2);
}

// What comes of a vector alone is computed once: here 20 times 4 MiB.
TEST(Programs, WithLargeConstantsAreNotKept) {
  Controlled run;
  std::string program;
  for (int i = 0; i < 20; ++i) {
    program += "save(layers[1].output.mean() + vector(\"evil\")[1].repeat(16384)[:1], \"" +
               std::to_string(i) + "\")\n";
  }
  ASSERT_TRUE(run.check(program).ok());
  ASSERT_TRUE(run.check(program).ok());
  EXPECT_EQ(run.num_compiled(), 2);
}

// 80 MiB: more than is kept beside the programs in force.
TEST(Programs, WithLargeFilesAreNotKept) {
  Controlled run;
  run.files().content = at::ones({20 << 20});
  const std::string program = "save(file(\"a\")[\"b\"].mean(), \"x\")";
  ASSERT_TRUE(run.check(program).ok());
  ASSERT_TRUE(run.check(program).ok());
  EXPECT_EQ(run.num_compiled(), 2);
}

// What is left of ones where these tokens of two prompts are written with 0.
at::Tensor left_by(const std::string& tokens) {
  Controlled run;
  run.apply("p", "when(prompts=\"*\", tokens=\"" + tokens + "\")\nlayers[1].output = 0");
  run.at_boundary(true);
  const at::Tensor ids = at::tensor({72, 105, 0, 0, 0, 79, 110, 99, 101, 46}, at::kLong);
  trace::ForwardScope scope{8, 0, 0, trace::Phase::kEval, 1};
  const auto pass = run.engine().begin(scope, ids.view({2, 5}));
  const at::Tensor out = pass->at_point(hidden_states(1), at::ones({2, 5, 64}));
  pass->end();
  return out.select(2, 0).flatten().to(at::kLong);
}

// Zeros fill prompts up to the longest of their set.
TEST(Programs, TheLastTokenOfAPromptIsItsOwn) {
  const at::Tensor last = at::tensor({0, 0, 1, 1, 1, 1, 1, 1, 0, 0}, at::kLong);
  EXPECT_TRUE(at::equal(left_by("-2,-1"), last));
  const at::Tensor first = at::tensor({0, 0, 1, 1, 1, 0, 0, 1, 1, 1}, at::kLong);
  EXPECT_TRUE(at::equal(left_by("0-1"), first)) << "what fills a prompt up is not its beginning";
}

json counts_of(Controlled& run) { return (*run.engine().report(8))["programs"][0]; }

// Layer 3 runs again in the backward pass, when the value of layer 1 has had its last user.
TEST(Programs, DoTheSameInARecomputationAndCountOnce) {
  Controlled run;
  run.apply("p",
            "h = layers[1].output\nlayers[3].output += h * layers[3].output\n"
            "save(layers[3].output.mean(), \"m\")");
  run.at_boundary(true);
  trace::ForwardScope scope{.step = 8, .recomputes = true};
  const auto pass = run.engine().begin(scope, at::zeros({4, 5}, at::kLong));
  pass->at_point(hidden_states(1), at::full({4, 5, 64}, 2.0F));
  for (int times = 0; times < 2; ++times) {
    const at::Tensor out = pass->at_point(hidden_states(3), at::full({4, 5, 64}, 3.0F));
    EXPECT_TRUE(at::equal(out, at::full({4, 5, 64}, 9.0F)));
  }
  pass->end();
  const json counts = counts_of(run);
  EXPECT_EQ(counts["failed"], 0);
  EXPECT_EQ(counts["positions"], 20);
  EXPECT_EQ(counts["forwards"], 1);
  EXPECT_EQ(run.engine().take_saved().size(), 1U);
}

TEST(Programs, OfAPassThatWasDroppedChangeNoGradientAndKeepNoSaves) {
  Controlled run;
  run.apply("p",
            "save(layers[1].output.mean(), \"m\")\nlayers[2].output += saved(\"m\")\n"
            "layers[1].output.grad *= 2");
  run.at_boundary(true);
  const at::Tensor x = at::ones({4, 5, 64}).requires_grad_(true);
  const auto meet = [&](trace::InterventionPass& pass) {
    return pass.at_point(hidden_states(1), 1 * x);
  };
  const at::Tensor tokens = at::zeros({4, 5}, at::kLong);
  auto dropped = run.engine().begin({.step = 8}, tokens);
  const at::Tensor of_dropped = meet(*dropped);
  dropped.reset();
  of_dropped.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), at::ones_like(x)));
  const auto pass = run.engine().begin({.step = 8}, tokens);
  meet(*pass).sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), at::full_like(x, 3)));
  pass->at_point(hidden_states(2), at::ones({4, 5, 64}));
  pass->end();
  EXPECT_EQ(counts_of(run)["waiting"], 1) << "for what a pass that ended has saved";
}

TEST(Programs, InForceReadInAPreviewWhatTheRunSavedAndLeaveNothingBehind) {
  Controlled run;
  run.apply("p", "save(layers[1].output.mean(), \"m\")\nlayers[2].output += saved(\"m\")");
  run.at_boundary(true);
  // What comes out of layer 2 after so much in layer 1.
  const auto pass = [&](double number) {
    const auto open = run.engine().begin({.step = 8}, at::zeros({4, 5}, at::kLong));
    open->at_point(hidden_states(1), at::full({4, 5, 64}, number));
    const at::Tensor out = open->at_point(hidden_states(2), at::zeros({4, 5, 64}));
    open->end();
    return out[0][0][0].item<double>();
  };
  pass(2);
  const json program = {{"program", "layers[3].output *= 2"}};
  ASSERT_TRUE(run.engine().begin_preview(program, {}, trace::Phase::kTrain).ok());
  EXPECT_EQ(pass(5), 2);
  run.engine().turn_preview(true);
  EXPECT_EQ(pass(7), 2);
  run.engine().end_preview();
  EXPECT_EQ(pass(9), 2);
  EXPECT_EQ(counts_of(run)["forwards"], 2);
  EXPECT_EQ(run.engine().take_saved().size(), 2U);
}

TEST(Programs, OfACopyOfAForwardNothingIsCountedOrSent) {
  Controlled run;
  run.apply("p", "layers[1].output *= 2\nsave(layers[1].output.mean(), \"m\")");
  run.at_boundary(true);
  for (const bool is_copy : {false, true}) {
    const auto pass =
        run.engine().begin({.step = 8, .is_copy = is_copy}, at::zeros({4, 5}, at::kLong));
    const at::Tensor out = pass->at_point(hidden_states(1), at::ones({4, 5, 64}));
    pass->end();
    EXPECT_TRUE(at::equal(out, at::full({4, 5, 64}, 2.0F)));
  }
  const json counts = counts_of(run);
  EXPECT_EQ(counts["forwards"], 1);
  EXPECT_EQ(counts["positions"], 20);
  EXPECT_EQ(run.engine().take_saved().size(), 1U);
}

TEST(Programs, InAPreviewReportTheForwardsOfOnePhase) {
  for (const trace::Phase reported : {trace::Phase::kTrain, trace::Phase::kEval}) {
    Controlled run;
    const json program = {{"program", "layers[1].output[:, 2] *= 3"}};
    ASSERT_TRUE(run.engine().begin_preview(program, {}, reported).ok());
    run.engine().turn_preview(true);
    for (const trace::Phase phase : {trace::Phase::kTrain, trace::Phase::kEval}) {
      const std::int64_t rows = phase == trace::Phase::kTrain ? 4 : 1;
      const trace::ForwardScope scope{.step = 8, .phase = phase};
      const auto pass = run.engine().begin(scope, at::zeros({rows, 5}, at::kLong));
      pass->at_point(hidden_states(1), at::ones({rows, 5, 64}));
      pass->end();
    }
    const std::int64_t rows = reported == trace::Phase::kTrain ? 4 : 1;
    const json writes = run.engine().preview_writes();
    EXPECT_EQ(writes[0]["positions"], rows);
    EXPECT_EQ(writes[0]["norm_before"], std::sqrt(rows * 5 * 64));
    EXPECT_EQ(writes[0]["norm_change"], std::sqrt(rows * 64 * 4));
    EXPECT_EQ(run.engine().preview_misfit(), "");
    EXPECT_EQ(run.engine().begin({.step = 8}, at::zeros({1, 2}, at::kLong)), nullptr);
    EXPECT_NE(run.engine().preview_misfit(), "") << "two tokens have no position 2";
    run.engine().end_preview();
  }
}

TEST(Programs, MayNotNamePromptsWhereTheyDoNotAct) {
  const comm::ProcessGroup group;
  Context context = made_up_context(4, group, at::kFloat);
  context.model.no_prompts = "the reason";
  const auto check = [&context](const std::string& when) {
    const auto checked = check_program("when(" + when + ")\nlayers[1].output *= 2", context);
    return checked.ok() ? "" : checked.error().message;
  };
  EXPECT_THAT(check("prompts=\"*\""), HasSubstr("the reason"));
  EXPECT_EQ(check("phase=\"all\""), "");
}

TEST(Programs, MayNotChooseAPartOfTheTextWithoutALossMask) {
  const comm::ProcessGroup group;
  Context context = made_up_context(4, group, at::kFloat);
  context.model.no_responses = "the reason";
  const auto check = [&context](const std::string& positions) {
    const auto checked =
        check_program("when(positions=\"" + positions + "\")\nlayers[1].output *= 2", context);
    return checked.ok() ? "" : checked.error().message;
  };
  EXPECT_THAT(check("response"), HasSubstr("the reason"));
  EXPECT_EQ(check("all"), "");
}

TEST(Programs, InForceActOnATypedPromptAtAnyTimeAndCountNothing) {
  Controlled run;
  const std::string twice = "layers[1].output *= 2\nsave(layers[1].output.mean(), \"m\")\n";
  run.apply("later", "when(steps=\"100\")\n" + twice);
  run.apply("waits", "save(layers[1].output.mean(), \"m\")\nlayers[2].output += saved(\"m\")");
  run.at_boundary(true);
  const trace::ForwardScope monitored{.step = 8, .phase = trace::Phase::kEval, .prompt_set = 1};
  const at::Tensor tokens = at::zeros({1, 3}, at::kLong);
  EXPECT_EQ(run.engine().begin(monitored, tokens), nullptr) << "neither names this pass";
  ASSERT_TRUE(run.engine().begin_prompt());
  trace::ForwardScope scope = monitored;
  scope.prompt_set = trace::kTypedPrompt;
  const auto pass = run.engine().begin(scope, tokens);
  ASSERT_NE(pass, nullptr);
  const at::Tensor out = pass->at_point(hidden_states(1), at::ones({1, 3, 64}));
  pass->at_point(hidden_states(2), at::ones({1, 3, 64}));
  pass->end();
  EXPECT_TRUE(at::equal(out, at::full({1, 3, 64}, 2)));
  EXPECT_EQ(run.engine().end_prompt(), json::parse(R"([
      {"name": "later", "acted": true, "failed": 0, "waiting": 0},
      {"name": "waits", "acted": false, "failed": 0, "waiting": 1}])"));
  EXPECT_EQ(run.engine().begin(monitored, tokens), nullptr);
  EXPECT_EQ(counts_of(run)["forwards"], 0);
  EXPECT_TRUE(run.engine().take_saved().empty());
}

TEST(Programs, WithoutOneInForceNoPromptBegins) {
  Controlled run;
  EXPECT_FALSE(run.engine().begin_prompt());
}

// The refusal of a program for a model with these micro-batches; empty: it is taken.
std::string refusal(const std::string& program, std::int64_t batch = 4, std::int64_t sequence = 5) {
  const comm::ProcessGroup group;
  Context context = made_up_context(4, group, at::kFloat);
  context.micro_batch_size = batch;
  context.seq_length = sequence;
  const auto checked = check_program(program, context);
  return checked.ok() ? "" : checked.error().message;
}

TEST(Budget, APlaceOfAnySizeCanBeWritten) {
  for (const char* program :
       {"h = layers[1].output\nlayers[1].output = h + 2 * vector(\"evil\")[1]",
        "layers[layer].output *= 0.9", "h = logits\nlogits = where(h > 3, 3.0, h)"})
    EXPECT_EQ(refusal(program, 16, 1 << 18), "") << program;
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
  const auto pass =
      run.engine().begin({8, 0, 0, trace::Phase::kTrain}, at::zeros({4, 5}, at::kLong));
  pass->at_point(hidden_states(1), at::ones({4, 5, 64}));
  pass->end();
  const auto saved = run.engine().take_saved();
  return saved.empty() ? std::nan("") : saved[0]["values"][0].get<double>();
}

// Of tensors without dims the larger dtype would win: 0.1 would make a float64 of a float32.
TEST(Parameters, AndNumbersPromoteAsPythonNumbersDo) {
  for (const char* factor : {"a", "2 * a / 2", "k", "b"})
    EXPECT_EQ(saved_of(std::string("layers[1].output.mean() * ") + factor), 0.1F) << factor;
}

TEST(Parameters, AndNumbersAreFloat64AmongThemselves) {
  EXPECT_EQ(saved_of("a * 3.3"), 0.1 * 3.3);
  EXPECT_EQ(saved_of("b * b - k"), 0.1 * 0.1 - 0.1);
  EXPECT_EQ(saved_of("(a * b < 0.1 * 0.1 + 1e-12).float()"), 1.0);
}

}  // namespace
}  // namespace tt::intervene

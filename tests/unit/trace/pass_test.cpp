// Passes that are open beside one another, and those that are dropped.
#include "tensor_tracer/trace/pass.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tensor_tracer/comm/world.h"
#include "tensor_tracer/trace/tracer.h"
#include "tests/unit/trace/collector.h"

namespace tt::trace {
namespace {

using nlohmann::json;

// Gradients of `from` under a plan that wants those of HiddenStates, raw.
std::shared_ptr<const Plan> raw_gradients(const PlanContext& about) {
  const json entry = {{"point", "HiddenStates"},
                      {"rows", 0},
                      {"micro_batches", "0-1"},
                      {"direction", "gradient"},
                      {"compressor", {{"kind", "none"}}}};
  return plan_of({{"entries", {entry}}}, about);
}

TEST(Pass, MayBeOpenBesideOneOfAnotherShape) {
  Collector collector;
  const PlanContext about = context(1, 8);
  Tracer tracer(about, {}, comm::ProcessGroup(), &collector);
  tracer.set_plan(raw_gradients(about));
  std::vector<Pass> passes;
  std::vector<at::Tensor> outputs;
  for (const std::int64_t rows : {4, 2}) {
    Pass& pass = passes.emplace_back(tracer.begin({.micro_batch = rows == 2}));
    outputs.push_back(2 * at::ones({rows, rows + 1, 64}, at::kBFloat16).requires_grad_(true));
    pass.capture(key_of("HiddenStates", 1), outputs.back());
    pass.end_forward();
  }
  for (std::size_t i = 0; i < passes.size(); ++i) {
    (outputs[i] * static_cast<double>(i + 3)).sum().backward();
    passes[i].end_backward();
  }
  for (Pass& pass : passes) pass.finish();
  EXPECT_THAT(collector.events, testing::IsEmpty());
  ASSERT_EQ(collector.all.size(), 2U);
  EXPECT_TRUE(at::equal(collector.all[0].values, at::full({4, 5, 64}, 3.0F)));
  EXPECT_TRUE(at::equal(collector.all[1].values, at::full({2, 3, 64}, 4.0F)));
}

TEST(Pass, KeepsThePlanThatItBeganWith) {
  Collector collector;
  const PlanContext about = context(1, 8);
  Tracer tracer(about, {}, comm::ProcessGroup(), &collector);
  tracer.set_plan(plan_of({{"entries", {{{"point", "QKV"}}, {{"point", "MLP2"}}}}}, about));
  Pass old = tracer.begin({});
  tracer.set_plan(plan_of({{"entries", {{{"point", "HiddenStates"}}}}}, about));
  Pass next = tracer.begin({});
  for (Pass* pass : {&old, &next}) {
    pass->capture(key_of("MLP2", 1), at::ones({2, 5, 64}));
    pass->capture(key_of("HiddenStates", 1), at::ones({2, 5, 64}));
    pass->end_forward();
    pass->finish();
  }
  ASSERT_EQ(collector.all.size(), 2U);
  EXPECT_EQ(collector.all[0].header.entry, 1U);
  EXPECT_EQ(collector.all[0].header.point, about.places->rows()[key_of("MLP2", 1).row].number);
  EXPECT_EQ(collector.all[1].header.entry, 0U);
}

TEST(Pass, ThatIsDroppedReadsNoGradient) {
  Collector collector;
  const PlanContext about = context(1, 8);
  Tracer tracer(about, {}, comm::ProcessGroup(), &collector);
  const json entry = {{"point", "RawAttentionScore"}, {"direction", "gradient"}};
  tracer.set_plan(plan_of({{"entries", {entry}}}, about));
  int made = 0;
  const at::Tensor x = at::ones({4, 8, 5, 2}).requires_grad_(true);
  const at::Tensor y = 1 * x;
  const auto watch = [&] {
    Pass pass = tracer.begin({});
    pass.capture_derived_gradient(key_of("RawAttentionScore", 1),
                                  {{4, 8, 5, 5}, at::kFloat, y, [&](const at::Tensor& gradient) {
                                     ++made;
                                     return gradient.sum(-1, true).expand({4, 8, 5, 5});
                                   }});
    return pass;
  };
  watch().end_forward();
  Pass pass = watch();
  pass.end_forward();
  y.sum().backward();
  pass.end_backward();
  pass.finish();
  EXPECT_EQ(made, 1) << "for the pass that is open";
  EXPECT_EQ(collector.all.size(), 1U);
  EXPECT_TRUE(at::equal(x.grad(), at::ones_like(x)));
}

TEST(Pass, ThatIsDroppedLeavesNothingToTheNextOne) {
  Collector collector;
  comm::run_local(2, [&](const comm::ProcessGroup& group) {
    const PlanContext about = context(2, 8);
    Tracer tracer(about, {}, group, group.rank() == 0 ? &collector : nullptr);
    tracer.set_plan(plan_of({{"entries", {{{"point", "MLP1"}}, {{"point", "MLP2"}}}}}, about));
    {
      Pass first = tracer.begin({.step = 1});
      Pass second = tracer.begin({.step = 2});
      for (Pass* pass : {&first, &second}) pass->capture(key_of("MLP1", 1), at::ones({4, 5, 168}));
      // The gather of the second one is under way.
      second.end_forward();
    }
    for (int step = 3; step <= 4; ++step) {
      Pass pass = tracer.begin({.step = step});
      pass.capture(key_of("MLP2", 1), at::ones({4, 5, 64}));
      pass.end_forward();
      pass.finish();
    }
  });
  EXPECT_THAT(collector.events, testing::IsEmpty());
  ASSERT_EQ(collector.all.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(collector.all[i].header.step, i + 3);
    EXPECT_EQ(collector.all[i].header.entry, 1U);
  }
}

TEST(Pass, OfAPromptThatIsFilledUpHasThePromptAlone) {
  Collector collector;
  const PlanContext about = context(1, 8);  // "probes" has 5 tokens
  Tracer tracer(about, {}, comm::ProcessGroup(), &collector);
  const json whole = {
      {"prompts", "probes"}, {"rows", 0}, {"compressor", {{"kind", "none"}}}, {"dtype", "f32"}};
  json states = whole, scores = whole;
  states["point"] = "HiddenStates";
  scores["point"] = "RawAttentionScore";
  tracer.set_plan(plan_of({{"entries", {states, scores}}}, about));
  const at::Tensor hidden = at::rand({4, 7, 64}), attention = at::rand({4, 8, 7, 7});
  Pass pass = tracer.begin({.phase = Phase::kEval, .prompt_set = 1});
  pass.capture(key_of("HiddenStates", 1), hidden);
  pass.capture(key_of("RawAttentionScore", 1), attention);
  pass.end_forward();
  pass.finish();
  ASSERT_EQ(collector.all.size(), 2U);
  EXPECT_TRUE(at::equal(collector.all[0].values, hidden.narrow(1, 0, 5)));
  EXPECT_TRUE(at::equal(collector.all[1].values, attention.narrow(2, 0, 5).narrow(3, 0, 5)));
}

TEST(Pass, WithoutRecomputationCapturesNothingAfterItsForward) {
  Collector collector;
  const PlanContext about = context(1, 8);
  Tracer tracer(about, {}, comm::ProcessGroup(), &collector);
  tracer.set_plan(raw_gradients(about));
  Pass pass = tracer.begin({});
  const at::Tensor y = 2 * at::ones({4, 5, 64}).requires_grad_(true);
  pass.capture(key_of("HiddenStates", 1), y);
  pass.end_forward();
  EXPECT_FALSE(pass.armed());
  const at::Tensor again = 2 * at::ones({4, 5, 64}).requires_grad_(true);
  pass.capture(key_of("HiddenStates", 1), again);
  pass.capture(key_of("HiddenStates", 2), again);
  (y + 3 * again).sum().backward();
  pass.end_backward();
  pass.finish();
  ASSERT_EQ(collector.all.size(), 1U);
  EXPECT_TRUE(at::equal(collector.all[0].values, at::ones({4, 5, 64})));
}

}  // namespace
}  // namespace tt::trace

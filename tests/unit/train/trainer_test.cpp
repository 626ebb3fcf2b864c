// The whole training loop on ranks that are threads. Losses are compared in float64: a mesh changes
// only the order of sums that cross ranks, which costs a few units of 1e-16 in each sum; eight
// steps of AdamW amplify that to less than 1e-12 of the loss. A gradient that is lost, counted
// twice or scaled wrongly changes the loss of the next step by more than 1e-6.
#include "tensor_tracer/train/trainer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tensor_tracer/base/check.h"
#include "tensor_tracer/train/plan_context.h"
#include "tests/unit/train/faulty_hooks.h"
#include "tests/unit/train/tiny_run.h"

namespace tt::train {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr double kTolerance = 1e-12;  // of a float64 loss, relative

void expect_near(double found, double wanted) {
  EXPECT_NEAR(found, wanted, kTolerance * std::abs(wanted));
}

void expect_same_training(const std::vector<StepReport>& found,
                          const std::vector<StepReport>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    SCOPED_TRACE("step " + std::to_string(i + 1));
    expect_near(found[i].loss, wanted[i].loss);
    ASSERT_EQ(found[i].valid_loss.has_value(), wanted[i].valid_loss.has_value());
    if (wanted[i].valid_loss) expect_near(*found[i].valid_loss, *wanted[i].valid_loss);
  }
}

class TrainerOnMesh : public testing::TestWithParam<mesh::MeshShape> {};

INSTANTIATE_TEST_SUITE_P(Trainer, TrainerOnMesh,
                         testing::Values(mesh::MeshShape{.tensor = 2}, mesh::MeshShape{.data = 2}),
                         [](const auto& test) {
                           return "Tensor" + std::to_string(test.param.tensor) + "Data" +
                                  std::to_string(test.param.data);
                         });

TEST_P(TrainerOnMesh, LossesAreThoseOfOneRank) {
  const std::vector<RankResult> one = train(tiny_config({}), {});
  const std::vector<RankResult> two = train(tiny_config(GetParam()), GetParam());
  ASSERT_EQ(one[0].reports.size(), static_cast<std::size_t>(kSteps));
  EXPECT_LT(one[0].reports.back().loss, one[0].reports.front().loss - 0.5);
  for (const RankResult& rank : two) expect_same_training(rank.reports, one[0].reports);
}

/// The requests of a plan that arrive before step 3, for both records of step 3 and later.
std::deque<std::vector<trace::Request>> plan_before_step_3() {
  const json entries = {
      {{"point", "Query"}, {"rows", 0}, {"compressor", {{"kind", "none"}}}},
      {{"point", "HiddenStates"}, {"rows", 0}, {"compressor", {{"kind", "none"}}}}};
  return {{}, {}, {{1, protocol::SetPlan{{{"entries", entries}}}}}};
}

TEST_P(TrainerOnMesh, APlanOfTheRunIsInForceOnEveryRank) {
  Script one;
  one.requests = plan_before_step_3();
  train(tiny_config({}), {}, &one);
  Script two;
  two.requests = plan_before_step_3();
  train(tiny_config(GetParam()), GetParam(), &two);
  EXPECT_THAT(two.refusals, testing::IsEmpty());
  ASSERT_EQ(two.answers.size(), 1U);
  EXPECT_EQ(two.answers[0].second["step"], 3);
  EXPECT_EQ(two.answers[0].second["ranks"], 2);
  // Query is sharded by heads: a rank without the plan would leave its half out.
  ASSERT_FALSE(one.records.empty());
  ASSERT_EQ(two.records.size(), one.records.size());
  for (std::size_t i = 0; i < one.records.size(); ++i) {
    const auto& [wanted, wanted_values] = one.records[i];
    const auto& [header, values] = two.records[i];
    EXPECT_GE(wanted.step, 3U);
    EXPECT_EQ(
        std::tuple(header.step, header.micro_batch, header.point, header.layer, header.shape),
        std::tuple(wanted.step, wanted.micro_batch, wanted.point, wanted.layer, wanted.shape));
    // Sent as float32.
    EXPECT_THAT(values, testing::Pointwise(testing::FloatNear(1e-5F), wanted_values));
  }
}

TEST_P(TrainerOnMesh, AStoppedPauseEndsTheRunOnEveryRank) {
  Script script;
  script.requests = {{}, {}, {{1, protocol::PauseRun{}}}, {}, {{2, protocol::StopRun{}}}};
  const auto ranks = train(tiny_config(GetParam()), GetParam(), &script);
  for (const RankResult& rank : ranks) EXPECT_EQ(rank.reports.size(), 2U);
  const json after_2 = {{"step", 2}, {"ranks", 2}};
  EXPECT_THAT(script.answers, testing::ElementsAre(std::pair(1U, after_2), std::pair(2U, after_2)));
}

std::string from_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char digit : text.substr(0, text.find('='))) {
    bits = bits << 6U | static_cast<std::uint32_t>(digits.find(digit));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> static_cast<unsigned>(count) & 255U);
  }
  return bytes;
}

/// Step and prompt set of each record of a preview.
std::vector<std::pair<std::uint64_t, std::uint32_t>> passes_of(const json& base64) {
  const std::string bytes = from_base64(base64.get<std::string>());
  std::vector<std::pair<std::uint64_t, std::uint32_t>> passes;
  protocol::RecordReader reader(bytes);
  while (const auto record = reader.next())
    passes.emplace_back(record->header.step, record->header.prompt_set);
  return passes;
}

TEST_P(TrainerOnMesh, APreviewRunsThePromptsThatItsPlanWatches) {
  FaultyHooks none(std::nullopt);
  const std::vector<data::PromptSet> prompts = {
      {"unwatched", {{"abc", {97, 98, 99}}}},
      {"probes", {{"ab", {97, 98}}, {"cde", {99, 100, 101}}}}};
  const config::TrainConfig config = tiny_config(GetParam());
  const json all = {{"rows", 0}, {"compressor", {{"kind", "topk"}, {"k", 3}}}};
  json of_prompts = {{"point", "Logits"}, {"prompts", "probes"}};
  json of_evaluation = {{"point", "Logits"}, {"phases", {"eval"}}};
  of_prompts.update(all);
  of_evaluation.update(all);
  Script script;
  const json plan = {{"entries", {of_evaluation, of_prompts}}};
  script.requests = {{}, {}, {{7, protocol::PreviewProgram{.program = "", .plan = plan}}}};
  train(config, GetParam(), &script, [&](TrainerParts& parts, int) {
    parts.hooks = &none;
    parts.prompts = prompts;
    parts.plan_context = make_plan_context(config, GetParam(), nullptr, prompts);
  });
  ASSERT_EQ(script.answers.size(), 1U);
  const json& records = script.answers[0].second["records"];
  const testing::Matcher<std::vector<std::pair<std::uint64_t, std::uint32_t>>> wanted =
      testing::ElementsAre(std::pair(2U, 0U), std::pair(2U, 2U));
  EXPECT_THAT(passes_of(records["off"]), wanted);
  EXPECT_THAT(passes_of(records["on"]), wanted);
}

/// Both ranks move as many bytes in one collective of `group`, of another dtype on each: nothing
/// but the check of sequences can notice.
void call_what_differs(const comm::ProcessGroup& group, int rank) {
  const at::Tensor part = at::zeros({4}, rank == 0 ? at::kInt : at::kFloat);
  at::Tensor all = at::empty({group.size(), 4}, part.scalar_type());
  group.all_gather(part, all);
}

using GroupMember = comm::ProcessGroup Groups::*;

class TrainerSequence : public testing::TestWithParam<std::pair<const char*, GroupMember>> {};

INSTANTIATE_TEST_SUITE_P(Trainer, TrainerSequence,
                         testing::Values(std::pair("world", &Groups::world),
                                         std::pair("tensor", &Groups::tensor),
                                         std::pair("tracer", &Groups::tracer),
                                         std::pair("control", &Groups::control),
                                         std::pair("data", &Groups::data)),
                         [](const auto& test) { return test.param.first; });

TEST_P(TrainerSequence, OfCollectivesThatDiffersIsFoundInDebugBuilds) {
  const auto [name, member] = GetParam();
  const mesh::MeshShape shape =
      std::string(name) == "data" ? mesh::MeshShape{.data = 2} : mesh::MeshShape{.tensor = 2};
  std::atomic<int> steps = 0;
  const auto run = [&, member = member] {
    train(tiny_config(shape), shape, nullptr, [&](TrainerParts& parts, int rank) {
      parts.on_step = [&steps, rank, group = parts.groups.*member](const StepReport& report) {
        ++steps;
        if (report.step == 2) call_what_differs(group, rank);
      };
    });
  };
#ifdef NDEBUG
  EXPECT_NO_THROW(run());
  EXPECT_EQ(steps, 2 * kSteps);
#else
  try {
    run();
    FAIL() << "the sequences differ and nothing was thrown";
  } catch (const base::CheckError& error) {
    EXPECT_THAT(error.what(), HasSubstr("group " + std::string(name) + ": "));
    EXPECT_THAT(error.what(), HasSubstr("the ranks called different collectives"));
  }
  EXPECT_EQ(steps, 4);
#endif
}

}  // namespace
}  // namespace tt::train

#include "tensor_tracer/control/run_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tensor_tracer/comm/world.h"
#include "tensor_tracer/train/plan_context.h"
#include "tests/unit/comm/counting_group.h"

namespace tt::control {
namespace {

using nlohmann::json;
using testing::ElementsAre;

// A controller whose requests are written down beforehand: requests[i] arrive at the i-th poll.
class Script : public trace::ControlSource, public trace::TraceSink {
 public:
  std::deque<std::vector<trace::Request>> requests;
  std::vector<std::pair<std::uint64_t, json>> answers;
  std::vector<std::pair<std::uint64_t, std::string>> refusals;
  std::vector<std::string> phases, logs;
  std::function<void()> on_answer;
  trace::Demand wanted;
  int waits = 0;

  std::vector<trace::Request> poll() override {
    if (requests.empty()) return {};
    auto next = std::move(requests.front());
    requests.pop_front();
    return next;
  }
  void wait(std::chrono::milliseconds) override { ++waits; }
  bool has_viewer() const override { return waits >= 3; }
  trace::Demand demand() const override { return wanted; }
  void answer(std::uint64_t id, json result) noexcept override {
    answers.emplace_back(id, std::move(result));
    if (on_answer) on_answer();
  }
  void refuse(std::uint64_t id, const base::Error& error) noexcept override {
    refusals.emplace_back(id, error.code);
  }
  void send_records(std::string) noexcept override {}
  void send_event(std::string_view event, json params) noexcept override {
    if (event == "state") phases.push_back(params["phase"]);
    if (event == "log") logs.push_back(params["message"]);
  }
};

json at_step(std::int64_t step) { return {{"step", step}, {"ranks", 2}}; }

// A folder of vectors, which one machine has and another has not.
class Vectors : public trace::VectorLibrary {
 public:
  std::vector<std::string> names() override { return {"evil"}; }
  base::Result<std::shared_ptr<const trace::DirectionVector>> find(
      const std::string& name) override {
    auto vector = std::make_shared<trace::DirectionVector>();
    vector->name = name;
    vector->hidden_size = config::ModelConfig{}.hidden_size;
    vector->rows.assign(static_cast<std::size_t>(vector->hidden_size * 5), 1.0F);
    return std::shared_ptr<const trace::DirectionVector>(std::move(vector));
  }
};

// Runs `steps` steps on two ranks under the script; plans[r] = plan numbers of rank r by step.
// Rank 0 alone has `vectors`; `layers`: of the model of rank 1.
std::vector<std::vector<std::uint32_t>> run(
    Script& script, std::int64_t steps, trace::VectorLibrary* vectors = nullptr,
    std::int64_t layers = config::ModelConfig{}.num_layers) {
  std::vector<std::vector<std::uint32_t>> plans(2);
  comm::run_local(2, [&](const comm::ProcessGroup& group) {
    const bool is_first = group.rank() == 0;
    config::TrainConfig config;
    if (!is_first) config.model.num_layers = layers;
    trace::Tracer tracer(train::make_plan_context(config, {}, is_first ? vectors : nullptr, {}), {},
                         comm::ProcessGroup(), nullptr);
    RunControl control(group, is_first ? &script : nullptr, is_first ? &script : nullptr, tracer,
                       nullptr, {});
    for (std::int64_t step = 1; step <= steps; ++step) {
      if (!control.before_step(step)) break;
      plans[static_cast<std::size_t>(group.rank())].push_back(tracer.plan().number);
    }
    control.finish(steps);
  });
  return plans;
}

TEST(RunControl, AnUnwatchedStepIsOneBroadcastOfOneSize) {
  comm::run_local(
      2,
      [](const comm::ProcessGroup& group) {
        Script script;
        const bool is_first = group.rank() == 0;
        const auto traffic = std::make_shared<comm::Traffic>();
        trace::Tracer tracer(train::make_plan_context({}, {}, nullptr, {}), {},
                             comm::ProcessGroup(), nullptr);
        RunControl control(comm::make_counting(group, traffic), is_first ? &script : nullptr,
                           is_first ? &script : nullptr, tracer, nullptr, {});
        for (std::int64_t step = 1; step <= 5; ++step) {
          ASSERT_TRUE(control.before_step(step));
          EXPECT_EQ(traffic->messages(), step);
          EXPECT_EQ(traffic->broadcasts, step);
          EXPECT_EQ(traffic->bytes, 40U * static_cast<std::size_t>(step));
        }
        control.finish(5);
      });
}

TEST(RunControl, PauseHoldsUntilContinue) {
  Script script;
  script.requests = {{}, {{1, protocol::PauseRun{}}}, {}, {{2, protocol::ContinueRun{}}}};
  run(script, 3);
  EXPECT_THAT(script.answers, ElementsAre(std::pair(1u, at_step(1)), std::pair(2u, at_step(1))));
  EXPECT_EQ(script.waits, 2);
  EXPECT_THAT(script.phases, ElementsAre("paused", "training", "finished"));
}

TEST(RunControl, ARunThatIsToldToStopEndsOnAllRanksAlsoIfItIsPausedOrHasNoHub) {
  for (const bool has_hub : {true, false}) {
    Script script;
    if (has_hub) script.requests = {{}, {{1, protocol::PauseRun{}}}, {}};
    std::atomic<int> asked = 0;
    std::vector<std::int64_t> steps(2);
    comm::run_local(2, [&](const comm::ProcessGroup& group) {
      const bool is_first = group.rank() == 0;
      Script* const its = has_hub && is_first ? &script : nullptr;
      trace::Tracer tracer(train::make_plan_context({}, {}, nullptr, {}), {}, comm::ProcessGroup(),
                           nullptr);
      std::function<bool()> is_told_to_stop;
      if (is_first) is_told_to_stop = [&asked] { return ++asked > 4; };
      RunControl control(group, its, its, tracer, nullptr, {}, {}, is_told_to_stop);
      std::int64_t& step = steps[static_cast<std::size_t>(group.rank())];
      while (step < 100 && control.before_step(step + 1)) ++step;
      control.finish(step);
    });
    EXPECT_THAT(steps, ElementsAre(has_hub ? 1 : 4, has_hub ? 1 : 4));
    EXPECT_EQ(script.phases, has_hub ? std::vector<std::string>({"paused", "stopped"})
                                     : std::vector<std::string>());
  }
}

TEST(RunControl, StopEndsTheRunOnAllRanksBeforeTheNextStep) {
  Script script;
  script.requests = {{}, {{1, protocol::PauseRun{}}}, {{2, protocol::StopRun{}}}};
  const auto plans = run(script, 5);
  EXPECT_EQ(plans[0].size(), 1U);
  EXPECT_EQ(plans[1].size(), 1U);
  EXPECT_THAT(script.answers, ElementsAre(std::pair(1u, at_step(1)), std::pair(2u, at_step(1))));
}

TEST(RunControl, SingleStepsAreAnsweredWhenDone) {
  Script script;
  script.requests = {{{1, protocol::PauseRun{}}, {2, protocol::StepRun{2}}},
                     {},
                     {},
                     {{3, protocol::ContinueRun{}}}};
  run(script, 4);
  EXPECT_THAT(script.answers, ElementsAre(std::pair(1u, at_step(0)), std::pair(2u, at_step(2)),
                                          std::pair(3u, at_step(2))));
}

TEST(RunControl, ViewersKnowThatTheRunIsPausedBeforeItsStepsAreAnswered) {
  Script script;
  script.requests = {{{1, protocol::StepRun{2}}}, {}, {{2, protocol::ContinueRun{}}}};
  std::vector<std::string> last_phases;
  script.on_answer = [&] { last_phases.push_back(script.phases.back()); };
  run(script, 3);
  EXPECT_THAT(last_phases, ElementsAre("paused", "training"));
}

TEST(RunControl, StepWithoutACountIsOneStep) {
  Script script;
  script.requests = {{{1, protocol::StepRun{}}}, {}, {{2, protocol::ContinueRun{}}}};
  run(script, 2);
  EXPECT_THAT(script.answers, ElementsAre(std::pair(1u, at_step(1)), std::pair(2u, at_step(1))));
}

TEST(RunControl, EveryRankTakesAPlanAtTheSameStep) {
  Script script;
  const protocol::SetPlan set{{{"entries", {{{"point", "HiddenStates"}}}}}};
  script.requests = {{}, {{1, set}}, {}, {{2, set}, {3, set}}};
  const auto plans = run(script, 5);
  EXPECT_THAT(plans[0], ElementsAre(0, 1, 1, 3, 3));
  EXPECT_EQ(plans[1], plans[0]);
  ASSERT_EQ(script.answers.size(), 3u);
  EXPECT_EQ(script.answers[0].second["step"], 2);
  EXPECT_EQ(script.answers[0].second["plan"]["number"], 1);
  EXPECT_EQ(script.answers[2].second["step"], 4);
}

// Step by step on each of two ranks: 1 for the QKV entry, plus 2 for the HiddenStates entry.
TEST(RunControl, EveryRankTracesTheEntriesThatSomebodyTakesInThePlanThatTheyBelongTo) {
  Script script;
  const protocol::SetPlan set{{{"entries", {{{"point", "QKV"}}, {{"point", "HiddenStates"}}}}}};
  script.requests = {{{1, set}}, {}, {{2, set}}};
  script.wanted = {.entries = 0b10, .plan = 1};
  std::vector<std::vector<int>> traced(2);
  comm::run_local(2, [&](const comm::ProcessGroup& group) {
    Script* const own = group.rank() == 0 ? &script : nullptr;
    const trace::PlanContext context = train::make_plan_context({}, {}, nullptr, {});
    trace::Tracer tracer(context, {}, comm::ProcessGroup(), nullptr);
    RunControl control(group, own, own, tracer, nullptr, {});
    for (std::int64_t step = 1; step <= 4; ++step) {
      if (own != nullptr && step == 4) own->wanted = {.entries = 0};
      EXPECT_TRUE(control.before_step(step));
      const trace::ForwardScope scope{.step = step};
      traced[static_cast<std::size_t>(group.rank())].push_back(
          (tracer.wants(context.places->key("QKV", 1), scope) ? 1 : 0) +
          (tracer.wants(context.places->key("HiddenStates", 1), scope) ? 2 : 0));
    }
    control.finish(4);
  });
  EXPECT_THAT(traced[0], ElementsAre(2, 2, 3, 0));
  EXPECT_EQ(traced[1], traced[0]);
}

TEST(RunControl, WrongRequestsAreRefusedAndTheRunGoesOn) {
  Script script;
  script.requests = {{{1, protocol::SetPlan{{{"entries", 3}}}},
                      {2, protocol::SetPlan{}},
                      {3, protocol::SeekReplay{}},
                      {4, protocol::RevertPrograms{}}}};
  const auto plans = run(script, 2);
  EXPECT_THAT(script.refusals,
              ElementsAre(std::pair(1u, "invalid_argument"), std::pair(2u, "invalid_argument"),
                          std::pair(3u, "unknown_method"), std::pair(4u, "unknown_method")));
  EXPECT_THAT(plans[1], ElementsAre(0, 0));
}

TEST(RunControl, LostContactContinuesWithoutAnAnswer) {
  Script script;
  script.requests = {{{1, protocol::PauseRun{}}}, {{0, protocol::ContinueRun{}}}};
  run(script, 2);
  EXPECT_THAT(script.answers, ElementsAre(std::pair(1u, at_step(0))));
}

// Runs `steps` steps on two ranks, of which the first waits; the plan's numbers on rank 1 by step.
std::vector<std::uint32_t> run_waiting(Script& script, std::int64_t steps) {
  std::vector<std::uint32_t> plans;
  comm::run_local(2, [&](const comm::ProcessGroup& group) {
    trace::Tracer tracer(train::make_plan_context({}, {}, nullptr, {}), {}, comm::ProcessGroup(),
                         nullptr);
    Script* own = group.rank() == 0 ? &script : nullptr;
    RunControl control(group, own, own, tracer, nullptr, {});
    control.wait_for_viewer();
    for (std::int64_t step = 1; step <= steps; ++step) {
      EXPECT_TRUE(control.before_step(step));
      if (own == nullptr) plans.push_back(tracer.plan().number);
    }
    control.finish(steps);
  });
  return plans;
}

TEST(RunControl, WaitsForAViewerWhenAsked) {
  Script script;
  run_waiting(script, 2);
  EXPECT_EQ(script.waits, 3);
  EXPECT_THAT(script.phases, ElementsAre("waiting", "training", "finished"));
}

TEST(RunControl, ARunThatWaitsTakesAPlanForItsFirstStepAndAnswersAtOnce) {
  Script script;
  const protocol::SetPlan set{{{"entries", {{{"point", "HiddenStates"}}}}}};
  script.requests = {{}, {{1, set}}};
  script.on_answer = [&] { EXPECT_EQ(script.phases.back(), "waiting"); };
  EXPECT_THAT(run_waiting(script, 2), ElementsAre(1, 1));
  ASSERT_EQ(script.answers.size(), 1u);
  EXPECT_EQ(script.answers[0].second["step"], 1);
  EXPECT_EQ(script.waits, 3);
}

TEST(RunControl, ARunThatWaitsIsStartedByARequestToContinueOrToStep) {
  for (const bool is_step : {false, true}) {
    Script script;
    trace::Request request{1, protocol::ContinueRun{}};
    if (is_step) request.body = protocol::StepRun{};
    script.requests = {{}, {request}};
    run_waiting(script, 1);
    EXPECT_EQ(script.waits, 1);
    EXPECT_THAT(script.phases, ElementsAre("waiting", "training", "finished"));
  }
}

// The link asks a paused run to continue when it has lost the hub for a time.
TEST(RunControl, LostContactDoesNotStartARunThatWaits) {
  Script script;
  script.requests = {{}, {{0, protocol::ContinueRun{}}}};
  run_waiting(script, 1);
  EXPECT_EQ(script.waits, 3);
}

TEST(RunControl, VectorsTravelWithThePlanThatNamesThem) {
  Script script;
  const json plan = {{"entries",
                      {{{"point", "HiddenStates"},
                        {"compressor", {{"kind", "projection"}, {"vectors", {"evil"}}}}}}}};
  script.requests = {{}, {{1, protocol::SetPlan{plan}}}};
  Vectors vectors;
  const auto plans = run(script, 3, &vectors);
  for (const auto& of_rank : plans) EXPECT_THAT(of_rank, ElementsAre(0, 1, 1));
  EXPECT_THAT(script.logs, testing::IsEmpty());
}

TEST(RunControl, PlanThatOneRankCannotTakeIsTakenByNone) {
  Script script;
  const json plan = {{"entries", {{{"point", "HiddenStates"}, {"layers", "4"}}}}};
  script.requests = {{}, {{1, protocol::SetPlan{plan}}}};
  const auto plans = run(script, 3, nullptr, 2);
  for (const auto& of_rank : plans) EXPECT_THAT(of_rank, ElementsAre(0, 0, 0));
  ASSERT_EQ(script.logs.size(), 1u);
  EXPECT_THAT(script.logs[0], testing::HasSubstr("a rank could not take plan 1"));
}

}  // namespace
}  // namespace tt::control

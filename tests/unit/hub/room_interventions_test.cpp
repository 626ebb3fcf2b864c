#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/hub/room_fixture.h"

namespace tt::hub {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

class RoomInterventionsTest : public RoomTest {
 protected:
  // What the worker is asked, and answers.
  json asked(FakeClient& worker) {
    json request;
    for (const json& text : worker.texts()) request = text.contains("method") ? text : request;
    return request;
  }
  std::vector<std::string> methods(FakeClient& worker) {
    std::vector<std::string> out;
    for (const json& text : worker.texts())
      if (text.contains("method")) out.push_back(text.at("method"));
    return out;
  }
  void notify_programs(FakeClient& worker, const json& programs) {
    say(worker, {{"event", "interventions"},
                 {"params", {{"step", 3}, {"programs", programs}, {"reason", "apply"}}}});
  }
  json facts_of_a_late_viewer() {
    const auto viewer = join(Role::kViewer);
    say(*viewer,
        {{"id", 1}, {"method", "hello"}, {"params", {{"versions", {1}}, {"role", "viewer"}}}});
    const json facts = viewer->texts().at(0).at("result").at("run");
    room_.leave(*viewer);
    return facts;
  }
};

const json kSteer = {{"name", "steer"}, {"keep", false}};
const json kKept = {{"name", "kept"}, {"keep", true}};

TEST_F(RoomInterventionsTest, EachMethodHasItsParametersAndNeedsTheLease) {
  const auto worker = greeted(Role::kWorker);
  const auto viewer = greeted(Role::kViewer);
  const std::vector<std::pair<std::string, json>> requests = {
      {"intervention.apply",
       {{"name", "a"}, {"program", "x"}, {"parameters", {{"p", 1}}}, {"ttl", 5}, {"keep", true}}},
      {"intervention.set", {{"name", "a"}, {"parameter", "p"}, {"value", 2.5}}},
      {"intervention.remove", {{"name", "a"}}},
      {"intervention.preview", {{"program", "x"}, {"parameters", json::object()}}},
      {"prompt.run", {{"text", "once"}}},
      {"prompt.keep", {{"name", "a"}, {"text", "once"}, {"plan", json::object()}}},
      {"prompt.remove", {{"name", "a"}}}};
  for (const auto& [method, params] : requests) {
    EXPECT_EQ(ask(*viewer, method, params).at("error").at("code"), "not_controller");
    EXPECT_EQ(ask(*viewer, method, {{"x", 1}}).at("error").at("code"), "not_controller")
        << "the lease comes first";
  }
  EXPECT_TRUE(ask(*viewer, "intervention.check", {{"program", "x"}}).is_null());
  EXPECT_EQ(asked(*worker).at("params"), json({{"program", "x"}}));
  ask(*viewer, "control.claim");
  for (const auto& [method, params] : requests) {
    EXPECT_TRUE(ask(*viewer, method, params).is_null()) << method;
    const json request = asked(*worker);
    EXPECT_EQ(request.at("method"), method);
    EXPECT_EQ(request.at("params"), params);
    json wrong = params;
    wrong["nmae"] = 1;
    EXPECT_EQ(ask(*viewer, method, wrong).at("error").at("where"), "nmae");
  }
  EXPECT_EQ(ask(*viewer, "control.pause", {{"", 1}}).at("error").at("code"), "invalid_argument");
  EXPECT_EQ(ask(*viewer, "intervention.revert").at("error").at("code"), "unknown_method");
}

TEST_F(RoomInterventionsTest, TheLeasesEndRevertsProgramsWithoutKeep) {
  const auto worker = greeted(Role::kWorker);
  const auto viewer = greeted(Role::kViewer);
  ask(*viewer, "control.claim");
  notify_programs(*worker, json::array({kKept}));
  worker->texts();
  ask(*viewer, "control.release");
  EXPECT_TRUE(methods(*worker).empty()) << "what is kept stays";
  ask(*viewer, "control.claim");
  notify_programs(*worker, {kKept, kSteer});
  room_.tick(start_ + 29s);
  EXPECT_TRUE(methods(*worker).empty());
  room_.tick(start_ + 31s);
  EXPECT_EQ(methods(*worker), std::vector<std::string>{"intervention.revert"});
}

TEST_F(RoomInterventionsTest, AProgramOnItsWayIsRevertedToo) {
  const auto worker = greeted(Role::kWorker);
  const auto viewer = greeted(Role::kViewer);
  ask(*viewer, "control.claim");
  ask(*viewer, "intervention.apply", {{"name", "a"}, {"program", "x"}, {"keep", true}});
  ask(*viewer, "control.release");
  EXPECT_EQ(methods(*worker), std::vector<std::string>{"intervention.apply"});
  ask(*viewer, "control.claim");
  ask(*viewer, "intervention.apply", {{"name", "a"}, {"program", "x"}});
  ask(*viewer, "control.release");
  const std::vector<std::string> both = {"intervention.apply", "intervention.revert"};
  EXPECT_EQ(methods(*worker), both);
  ask(*viewer, "control.claim");
  ask(*viewer, "control.release");
  EXPECT_TRUE(methods(*worker).empty()) << "once";
}

TEST_F(RoomInterventionsTest, ATakeOverRevertsNothing) {
  const auto worker = greeted(Role::kWorker);
  const auto ada = greeted(Role::kViewer);
  const auto bob = greeted(Role::kViewer);
  ask(*ada, "control.claim");
  notify_programs(*worker, json::array({kSteer}));
  ask(*bob, "control.claim", {{"take_over", true}});
  room_.leave(*ada);
  room_.tick(start_ + 29s);
  EXPECT_TRUE(methods(*worker).empty());
}

TEST_F(RoomInterventionsTest, ProgramsThatNobodysLeaseCoversEndAfterItsTime) {
  // As after a restart of the hub: the trainer comes back with what it has in its facts.
  const auto worker = join(Role::kWorker);
  say(*worker, {{"id", 1},
                {"method", "hello"},
                {"params",
                 {{"versions", {1}},
                  {"role", "worker"},
                  {"run", {{"id", "1"}, {"interventions", {kKept, kSteer}}}}}}});
  worker->texts();
  room_.tick(start_ + 29s);
  EXPECT_TRUE(methods(*worker).empty());
  room_.tick(Clock::now() + 31s);
  EXPECT_EQ(methods(*worker), std::vector<std::string>{"intervention.revert"});
  notify_programs(*worker, json::array({kKept}));
  room_.tick(Clock::now() + 90s);
  EXPECT_TRUE(methods(*worker).empty());
}

TEST_F(RoomInterventionsTest, LateViewersGetTheProgramsInForce) {
  const auto worker = greeted(Role::kWorker);
  const auto viewer = greeted(Role::kViewer);
  notify_programs(*worker, json::array({kSteer}));
  EXPECT_EQ(viewer->texts().at(0).at("params").at("programs"), json::array({kSteer}));
  EXPECT_EQ(facts_of_a_late_viewer().at("interventions"), json::array({kSteer}));
  say(*worker, {{"event", "interventions"}, {"params", {{"programs", 7}}}});
  EXPECT_EQ(facts_of_a_late_viewer().at("interventions"), json::array({kSteer}));
}

TEST_F(RoomInterventionsTest, ASlowViewerLosesSavedNumbersAndIsNotClosed) {
  const auto worker = greeted(Role::kWorker);
  const auto slow = greeted(Role::kViewer);
  for (int step = 1; step <= 50; ++step) {
    for (const char* name : {"a", "b"}) {
      say(*worker, {{"event", "saved"},
                    {"params",
                     {{"step", step},
                      {"program", "p"},
                      {"name", name},
                      {"values", std::string(500, 'x')}}}});
    }
    say(*worker, {{"event", "applied"}, {"params", {{"step", step}}}});
  }
  EXPECT_EQ(slow->closed, "");
  EXPECT_LE(slow->queue().bytes(), 4000U);
  std::vector<json> last(3);
  std::uint64_t dropped = 0;
  std::size_t got = 0;
  for (const json& text : slow->texts()) {
    const json& params = text.at("params");
    if (text.at("event") == "dropped") {
      dropped = params.at("events");
      continue;
    }
    ++got;
    last.at(text.at("event") == "applied" ? 2 : params.at("name") == "a" ? 0 : 1) = params;
  }
  EXPECT_EQ(got + dropped, 150U);
  for (const json& params : last) EXPECT_EQ(params.at("step"), 50);
}

TEST_F(RoomInterventionsTest, MetricsCountWhatTheLeaderTells) {
  const auto worker = greeted(Role::kWorker);
  const auto other = join(Role::kWorker);
  say(*other,
      {{"id", 1},
       {"method", "hello"},
       {"params", {{"versions", {1}}, {"role", "worker"}, {"rank", 4}, {"run", json::object()}}}});
  notify_programs(*worker, {kSteer, kKept});
  const json applied = {
      {"programs",
       {{{"forwards", 4U}, {"positions", 100U}}, {{"forwards", 1U}, {"positions", "x"}}, 7}}};
  for (FakeClient* client : {worker.get(), other.get()})
    say(*client, {{"event", "applied"}, {"params", applied}});
  EXPECT_EQ(room_.survey(now_).programs, 2U);
  EXPECT_EQ(room_.metrics().applications, 5U);
  EXPECT_EQ(room_.metrics().positions, 100U);
}

}  // namespace
}  // namespace tt::hub

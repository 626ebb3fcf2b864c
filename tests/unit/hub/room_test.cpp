#include "src/hub/room/room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/unit/hub/room_fixture.h"

namespace tt::hub {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::ElementsAre;

TEST_F(RoomTest, AClientThatMayBeSilentMayWaitForItsUser) {
  FakeClient client(Role::kViewer, room_);
  room_.join(client, now_, true);
  room_.tick(start_ + 60s);
  EXPECT_EQ(client.closed, "");
  room_.leave(client);
}

TEST_F(RoomTest, ASilentClientIsClosed) {
  const auto silent = join(Role::kViewer);
  const auto polite = greeted(Role::kViewer);
  room_.tick(start_ + 10s);
  EXPECT_EQ(silent->closed, "");
  room_.tick(start_ + 11s);
  EXPECT_EQ(silent->closed, "no hello");
  EXPECT_EQ(polite->closed, "");
}

TEST_F(RoomTest, ViewersAreListedAsTheyCame) {
  const auto worker = greeted(Role::kWorker);
  const auto ada = greeted(Role::kViewer);
  const auto silent = join(Role::kViewer);
  now_ += 1s;
  const auto bob = greeted(Role::kViewer);
  const auto described = [](const char* session) {
    return json{{"session", session},
                {"native", true},
                {"may_control", true},
                {"queued_bytes", 0},
                {"dropped_records", 0}};
  };
  const json answer = ask(*ada, "viewers.list");
  EXPECT_EQ(answer.at("result").at("viewers"), json({described("v1"), described("v3")}));
  EXPECT_EQ(ask(*ada, "viewers.list", {{"x", 1}}).at("error").at("where"), "x");
}

TEST_F(RoomTest, AClientWhoseTextsDoNotFitIsClosedAndOthersAreServed) {
  const auto worker = greeted(Role::kWorker);
  const auto slow = greeted(Role::kViewer);
  const auto fast = greeted(Role::kViewer);
  for (int i = 0; i < 10; ++i) {
    say(*worker, {{"event", "log"}, {"params", {{"message", std::string(500, 'x')}}}});
    fast->texts();
  }
  EXPECT_EQ(slow->closed, "too slow");
  EXPECT_EQ(fast->closed, "");
}

std::string record_of_plan(std::uint32_t plan, std::uint16_t layer) {
  std::string bytes;
  protocol::append_record(bytes, {.plan = plan, .layer = layer, .ndim = 0, .shape = {1, 1, 1, 1}},
                          std::vector<std::byte>(4));
  return bytes;
}

TEST_F(RoomTest, AViewerThatDoesNotWatchYetDoesNotCountAndGetsNoRecords) {
  const auto worker = greeted(Role::kWorker);
  room_.on_binary(*worker, record_of_plan(1, 1), now_);
  const auto viewer = join(Role::kViewer);
  worker->texts();
  say(*viewer, {{"id", 1},
                {"method", "hello"},
                {"params", {{"versions", {1}}, {"role", "viewer"}, {"watch", false}}}});
  room_.on_binary(*worker, record_of_plan(1, 2), now_);
  EXPECT_TRUE(viewer->texts().at(0).contains("result"));
  EXPECT_EQ(viewer->records, 0U);
  EXPECT_TRUE(worker->texts().empty()) << "a run that waits for a viewer does not start";
  EXPECT_TRUE(ask(*viewer, "control.claim").contains("result")) << "it may set a plan meanwhile";
  ask(*viewer, "subscribe");
  viewer->texts();
  EXPECT_EQ(viewer->records, 2U) << "the latest";
  EXPECT_EQ(worker->texts().at(0).at("params").at("count"), 1);
  ask(*viewer, "subscribe");
  EXPECT_TRUE(worker->texts().empty());
}

TEST_F(RoomTest, AWorkerThatSendsOnlyDamageDoesNotFloodTheViewers) {
  const auto worker = greeted(Role::kWorker);
  const auto viewer = greeted(Role::kViewer);
  viewer->texts();
  for (int i = 0; i < 100; ++i) room_.on_binary(*worker, "damage", now_);
  EXPECT_EQ(viewer->texts().size(), 1U);
  room_.on_binary(*worker, "damage", now_ + std::chrono::seconds(1));
  const std::vector<json> texts = viewer->texts();
  ASSERT_EQ(texts.size(), 1U);
  EXPECT_NE(texts[0].at("params").at("message").get<std::string>().find("99 more"),
            std::string::npos)
      << texts[0];
  EXPECT_EQ(room_.metrics().damaged_records, 101U);
}

TEST_F(RoomTest, RecordsOfAPlanThatIsOverAreShownButNotKept) {
  const auto worker = greeted(Role::kWorker);
  const auto viewer = greeted(Role::kViewer);
  room_.on_binary(*worker, record_of_plan(2, 1), now_);
  say(*worker, {{"event", "plan"}, {"params", {{"plan", {{"number", 3}}}, {"step", 5}}}});
  viewer->texts();
  room_.on_binary(*worker, record_of_plan(2, 1), now_);
  EXPECT_EQ(viewer->queue().bytes(), record_of_plan(2, 1).size()) << "it waited in the link";
  EXPECT_EQ(greeted(Role::kViewer)->records, 0U);
}

TEST_F(RoomTest, ATrainerThatComesBackWithAnotherPlanEndsTheOldOne) {
  const auto worker = greeted(Role::kWorker);
  room_.on_binary(*worker, record_of_plan(2, 1), now_);
  room_.leave(*worker);
  const auto again = join(Role::kWorker);
  say(*again, {{"id", 1},
               {"method", "hello"},
               {"params",
                {{"versions", {1}},
                 {"role", "worker"},
                 {"run", {{"id", "1"}, {"plan", {{"number", 3}}}}}}}});
  room_.on_binary(*again, record_of_plan(3, 2), now_);
  EXPECT_EQ(greeted(Role::kViewer)->records, 1U);
}

TEST_F(RoomTest, ARequestThatTheTrainerDoesNotAnswerTimesOutOnce) {
  const auto worker = greeted(Role::kWorker);
  const auto viewer = greeted(Role::kViewer);
  ask(*viewer, "control.claim");
  ask(*viewer, "control.pause");
  viewer->texts();
  room_.tick(start_ + 59s);
  EXPECT_EQ(viewer->texts().size(), 1U) << "the lease's end, nothing else";
  room_.tick(start_ + 60s);
  const auto texts = viewer->texts();
  ASSERT_EQ(texts.size(), 1U);
  EXPECT_EQ(texts[0].at("id"), 2);
  EXPECT_EQ(texts[0].at("error").at("code"), "timeout");
  say(*worker, {{"id", 1}, {"result", json::object()}});
  EXPECT_TRUE(viewer->texts().empty());
}

TEST_F(RoomTest, ManyStepsTakeAsLongAsTheyTake) {
  auto worker = greeted(Role::kWorker);
  const auto viewer = greeted(Role::kViewer);
  ask(*viewer, "control.claim");
  ask(*viewer, "control.step", {{"count", 1000}});
  viewer->texts();
  for (int ping = 0; ping < 100; ++ping) {
    say(*viewer, {{"id", 10 + ping}, {"method", "ping"}});
    room_.tick(now_ += 20s);
  }
  for (const json& text : viewer->texts()) EXPECT_FALSE(text.contains("error")) << text;
  room_.leave(*worker);
  const auto texts = viewer->texts();
  ASSERT_FALSE(texts.empty());
  EXPECT_EQ(texts[0].at("error").at("code"), "no_trainer");
}

TEST_F(RoomTest, TooManyWaitingRequestsAreRefused) {
  const auto worker = greeted(Role::kWorker);
  const auto viewer = greeted(Role::kViewer);
  ask(*viewer, "control.claim");
  for (int i = 0; i < 32; ++i) {
    EXPECT_TRUE(ask(*viewer, "control.pause").is_null());
    worker->texts();
  }
  EXPECT_EQ(ask(*viewer, "control.pause").at("error").at("code"), "busy");
}

TEST_F(RoomTest, APlanIsCheckedWithoutTheLease) {
  const auto worker = greeted(Role::kWorker);
  const auto viewer = greeted(Role::kViewer);
  EXPECT_EQ(ask(*viewer, "plan.set", {{"plan", json::object()}}).at("error").at("code"),
            "not_controller");
  worker->texts();  // there is a viewer
  EXPECT_TRUE(ask(*viewer, "plan.check", {{"plan", json::object()}}).is_null());
  const auto asked = worker->texts();
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].at("method"), "plan.check");
  say(*worker, {{"id", asked[0].at("id")}, {"result", {{"bytes_per_step", 1}}}});
  EXPECT_EQ(viewer->texts().back().at("result"), json({{"bytes_per_step", 1}}));
}

TEST_F(RoomTest, ALateViewerKnowsThePromptsThatWereKept) {
  const auto worker = greeted(Role::kWorker);
  const auto other = join(Role::kWorker);
  say(*other,
      {{"id", 1},
       {"method", "hello"},
       {"params", {{"versions", {1}}, {"role", "worker"}, {"rank", 1}, {"run", {{"id", "1"}}}}}});
  const auto viewer = greeted(Role::kViewer);
  const auto tell = [&](FakeClient& from, const json& sets) {
    say(from, {{"event", "prompts"}, {"params", {{"step", 3}, {"prompt_sets", sets}}}});
  };
  const json kept = {{{"name", "mine"}, {"prompts", {"once"}}}};
  tell(*worker, kept);
  tell(*other, json::array());
  tell(*worker, 7);
  const auto texts = viewer->texts();
  ASSERT_EQ(texts.size(), 2U) << "only rank 0 keeps prompts";
  EXPECT_EQ(texts[0].at("params").at("prompt_sets"), kept);
  const auto late = join(Role::kViewer);
  say(*late, {{"id", 1}, {"method", "hello"}, {"params", {{"versions", {1}}, {"role", "viewer"}}}});
  EXPECT_EQ(late->texts().at(0).at("result").at("run").at("prompt_sets"), kept);
}

TEST_F(RoomTest, APauseWithoutALeaseEndsAfterItsTime) {
  // As after a restart of the hub: the trainer comes back paused and nobody holds the lease.
  const auto worker = greeted(Role::kWorker);
  say(*worker, {{"event", "state"}, {"params", {{"phase", "paused"}, {"step", 3}}}});
  room_.tick(start_ + 29s);
  EXPECT_TRUE(worker->texts().empty());
  room_.tick(Clock::now() + 31s);
  const auto texts = worker->texts();
  ASSERT_EQ(texts.size(), 1U);
  EXPECT_EQ(texts[0].at("method"), "control.continue");
}

TEST_F(RoomTest, TheTrainerLearnsWhoAsksBeforeTheFirstChangeOfEachPerson) {
  const auto worker = greeted(Role::kWorker);
  const auto ada = greeted(Role::kViewer);
  const auto said = [&] {
    std::vector<std::string> kinds;
    for (const json& text : worker->texts())
      if (text.contains("method"))
        kinds.push_back(text.at("method"));
      else if (text.value("event", std::string()) == "control")
        kinds.push_back(text.at("params").at("holder").at("name"));
    return kinds;
  };
  ask(*ada, "control.claim", {{"name", "Ada"}});
  ask(*ada, "control.pause");
  ask(*ada, "plan.check", {{"plan", json::object()}});
  ask(*ada, "control.continue");
  EXPECT_THAT(said(), ElementsAre("Ada", "control.pause", "plan.check", "control.continue"));
  ask(*ada, "control.claim", {{"name", "Ada Lovelace"}});
  ask(*ada, "control.stop");
  EXPECT_THAT(said(), ElementsAre("Ada Lovelace", "control.stop"));
}

TEST_F(RoomTest, TakingOverKeepsThePause) {
  const auto worker = greeted(Role::kWorker);
  const auto ada = greeted(Role::kViewer);
  const auto bob = greeted(Role::kViewer);
  ask(*ada, "control.claim");
  ask(*ada, "control.pause");
  say(*worker, {{"event", "state"}, {"params", {{"phase", "paused"}, {"step", 3}}}});
  worker->texts();
  EXPECT_TRUE(ask(*bob, "control.claim", {{"take_over", true}}).contains("result"));
  room_.leave(*ada);
  room_.tick(start_ + 29s);
  for (const json& message : worker->texts()) EXPECT_FALSE(message.contains("method")) << message;
}

TEST_F(RoomTest, ALostRunIsLostAtItsLastStep) {
  const auto viewer = greeted(Role::kViewer);
  const auto worker = greeted(Role::kWorker);
  say(*worker, {{"event", "state"}, {"params", {{"phase", "training"}, {"step", 0}}}});
  say(*worker, {{"event", "step"}, {"params", {{"step", 6}}}});
  say(*worker, {{"event", "step"}, {"params", {{"step", 7}}}});
  room_.leave(*worker);
  const json lost = {{"event", "state"}, {"params", {{"phase", "lost"}, {"step", 7}}}};
  EXPECT_EQ(viewer->texts().back(), lost);
}

TEST_F(RoomTest, ARestoredRunIsLostAtItsLastStep) {
  room_.restore({{"id", "1"}}, {{{"step", 4U}}, {{"step", 5U}}});
  const auto viewer = join(Role::kViewer);
  say(*viewer,
      {{"id", 1}, {"method", "hello"}, {"params", {{"versions", {1}}, {"role", "viewer"}}}});
  const json lost = {{"phase", "lost"}, {"step", 5}};
  EXPECT_EQ(viewer->texts().front().at("result").at("state"), lost);
}

TEST_F(RoomTest, AnotherRunsStepsAreNotShown) {
  const auto worker = greeted(Role::kWorker);
  say(*worker, {{"event", "step"}, {"params", {{"step", 1}}}});
  room_.leave(*worker);
  const auto next = join(Role::kWorker);
  say(*next, {{"id", 1},
              {"method", "hello"},
              {"params", {{"versions", {1}}, {"role", "worker"}, {"run", {{"id", "2"}}}}}});
  const auto viewer = join(Role::kViewer);
  say(*viewer,
      {{"id", 1}, {"method", "hello"}, {"params", {{"versions", {1}}, {"role", "viewer"}}}});
  const auto texts = viewer->texts();
  ASSERT_EQ(texts.size(), 1U);
  EXPECT_EQ(texts[0].at("result").at("run").at("id"), "2");
}

// The bytes of the next binary message that waits, part by part.
std::vector<std::string_view> parts_of(FakeClient& client) {
  std::vector<std::string_view> parts;
  for (const SharedBytes& part : client.queue().pop().parts) parts.push_back(*part);
  return parts;
}

TEST_F(RoomTest, ALargeRecordIsNotCopiedAndASmallOneDoesNotPinItsMessage) {
  const auto worker = greeted(Role::kWorker);
  const auto ada = greeted(Role::kViewer);
  const auto bob = greeted(Role::kViewer);
  const auto record = [](std::uint16_t layer, std::size_t bytes) {
    std::string out;
    protocol::append_record(out, {.layer = layer, .dtype = protocol::Dtype{200}},
                            std::vector<std::byte>(bytes));
    return out;
  };
  const std::string large = record(1, 600);
  const std::string small = record(2, 8);
  const auto message = std::make_shared<const std::string>(large + small);
  room_.on_binary(*worker, message, now_);
  for (FakeClient* viewer : {ada.get(), bob.get()}) {
    const auto first = parts_of(*viewer);
    ASSERT_EQ(first.size(), 1U);
    EXPECT_EQ(first[0].data(), message->data());
    EXPECT_EQ(first[0], large);
    const auto second = parts_of(*viewer);
    ASSERT_EQ(second.size(), 1U);
    EXPECT_EQ(second[0], small);
    EXPECT_NE(second[0].data(), message->data() + large.size());
  }
}

TEST_F(RoomTest, MessagesOfAClientThatLeftAreIgnored) {
  const auto viewer = greeted(Role::kViewer);
  room_.leave(*viewer);
  room_.leave(*viewer);
  room_.on_text(*viewer, "{", now_);
  room_.on_binary(*viewer, "x", now_);
  EXPECT_TRUE(viewer->texts().empty());
}

}  // namespace
}  // namespace tt::hub

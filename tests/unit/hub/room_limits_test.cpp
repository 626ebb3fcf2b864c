#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "src/hub/room/room.h"

namespace tt::hub {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

class QuietClient : public Client {
 public:
  QuietClient(Role role, Room& room, bool may_control)
      : Client(role, room.make_queue(), may_control) {}
  void wake() override {}
  void close(std::string_view reason) override { closed = reason; }
  void close_after_sending(std::string_view reason) override { closed = reason; }
  void close_for_violation(std::string_view reason) override {
    violation = true;
    close(reason);
  }

  std::vector<json> texts() {
    std::vector<json> out;
    for (Outgoing next = queue().pop(); !next.empty(); next = queue().pop())
      out.push_back(json::parse(*next.parts.front()));
    return out;
  }

  std::string closed;
  bool violation = false;
};

class RoomLimitsTest : public testing::Test {
 protected:
  std::unique_ptr<QuietClient> greeted(Role role, bool may_control = true) {
    auto client = std::make_unique<QuietClient>(role, room_, may_control);
    room_.join(*client, now_);
    const char* name = role == Role::kViewer ? "viewer" : "worker";
    json params = {{"versions", {1}}, {"role", name}};
    if (role == Role::kWorker) params["run"] = {{"id", "1"}};
    say(*client, {{"id", 1}, {"method", "hello"}, {"params", params}});
    hello_ = client->texts().at(0);
    return client;
  }
  void say(Client& client, const json& message) { room_.on_text(client, message.dump(), now_); }
  void say_state(Client& worker, const char* phase) {
    say(worker, {{"event", "state"}, {"params", {{"phase", phase}, {"step", 1}}}});
  }
  std::string ready_code(Clock::time_point now) {
    const base::Status ready = room_.ready(now, 10s);
    return ready.ok() ? "ready" : ready.error().code;
  }

  const Clock::time_point start_ = Clock::now();
  Clock::time_point now_ = start_;
  json hello_;
  Room room_{RoomOptions{.messages = {.per_second = 10, .burst = 20, .refusals = 5}}};
};

TEST_F(RoomLimitsTest, ATokenThatOnlyViewsClaimsNothing) {
  const auto watcher = greeted(Role::kViewer, false);
  EXPECT_EQ(hello_.at("result").at("may_control"), false);
  say(*watcher, {{"id", 2}, {"method", "control.claim"}, {"params", {{"take_over", true}}}});
  EXPECT_EQ(watcher->texts().at(0).at("error").at("code"), "not_allowed");
  const auto controller = greeted(Role::kViewer, true);
  EXPECT_EQ(hello_.at("result").at("may_control"), true);
  EXPECT_EQ(hello_.at("result").at("control").at("holder"), json());
  say(*controller, {{"id", 2}, {"method", "control.claim"}});
  EXPECT_TRUE(controller->texts().back().contains("result"));
}

TEST_F(RoomLimitsTest, AViewerThatSendsTooFastIsToldSoAndInTheEndClosed) {
  const auto viewer = greeted(Role::kViewer);
  for (int i = 2; i <= 20; ++i) say(*viewer, {{"event", "nonsense"}});
  EXPECT_EQ(viewer->texts().size(), 19U) << "each is answered as no request";
  say(*viewer, {{"id", 7}, {"method", "ping"}});
  const auto refused = viewer->texts();
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_EQ(refused[0].at("id"), 7);
  EXPECT_EQ(refused[0].at("error").at("code"), "rate_limited");
  room_.on_text(*viewer, "{", now_);
  room_.on_binary(*viewer, "x", now_);
  EXPECT_TRUE(viewer->texts().empty()) << "what is no request has no answer";
  say(*viewer, {{"event", "ack"}});
  say(*viewer, {{"event", "ack"}});
  EXPECT_EQ(viewer->closed, "");
  say(*viewer, {{"event", "ack"}});
  EXPECT_TRUE(viewer->violation);
  EXPECT_EQ(room_.metrics().rate_limited, 6U);
  room_.leave(*viewer);
}

TEST_F(RoomLimitsTest, WorkersAreNotLimited) {
  const auto worker = greeted(Role::kWorker);
  for (int i = 0; i < 1000; ++i) say(*worker, {{"event", "step"}, {"params", {{"step", i}}}});
  EXPECT_EQ(worker->closed, "");
  EXPECT_EQ(room_.metrics().step.at("step"), 999);
  EXPECT_EQ(room_.metrics().rate_limited, 0U);
}

TEST_F(RoomLimitsTest, ReadyWhileTheTrainerSpeaksOrRests) {
  EXPECT_EQ(ready_code(start_), "no_trainer");
  const auto trainer = greeted(Role::kWorker);
  say_state(*trainer, "training");
  EXPECT_EQ(ready_code(start_ + 10s), "ready");
  EXPECT_EQ(ready_code(start_ + 11s), "silent");
  now_ = start_ + 11s;
  room_.on_binary(*trainer, "", now_);
  EXPECT_EQ(ready_code(start_ + 21s), "ready") << "records count";
  now_ = start_ + 21s;
  say(*trainer, {{"event", "link"}, {"params", {{"send_seconds", 1.5}}}});
  EXPECT_EQ(ready_code(start_ + 22s), "silent") << "another thread's word";
  for (const char* phase : {"paused", "waiting", "finished", "replay"}) {
    say_state(*trainer, phase);
    EXPECT_EQ(ready_code(start_ + 1h), "ready") << phase;
  }
  room_.leave(*trainer);
  EXPECT_EQ(ready_code(start_ + 11s), "no_trainer");
}

TEST_F(RoomLimitsTest, TheSurveyCountsWhoIsGreeted) {
  const auto trainer = greeted(Role::kWorker);
  const auto viewer = greeted(Role::kViewer);
  const auto silent = std::make_unique<QuietClient>(Role::kViewer, room_, true);
  room_.join(*silent, now_);
  const Survey survey = room_.survey(start_ + 3s);
  EXPECT_EQ(survey.viewers, 1U);
  ASSERT_EQ(survey.workers.size(), 1U);
  EXPECT_EQ(survey.workers.at(0).silent_seconds, 3.0);
  EXPECT_GT(survey.queued_for_workers, 0U) << "the number of viewers";
  EXPECT_FALSE(survey.controlled);
}

TEST_F(RoomLimitsTest, WhatAWorkerTellsOfItsSideIsNoViewersBusiness) {
  const auto trainer = greeted(Role::kWorker);
  const auto viewer = greeted(Role::kViewer);
  viewer->texts();
  const json told = {{"send_seconds", 1.5}, {"queue_bytes", 4096}};
  say(*trainer, {{"event", "link"}, {"params", told}});
  EXPECT_TRUE(viewer->texts().empty());
  const LinkFacts link = room_.survey(now_).workers.at(0).link.value();
  EXPECT_EQ(link.send_seconds, 1.5);
  EXPECT_EQ(link.queue_bytes, 4096);
}

TEST_F(RoomLimitsTest, AcknowledgementsAreFreeAndNeverLost) {
  const auto worker = greeted(Role::kWorker);
  const auto viewer = greeted(Role::kViewer);
  std::string record;
  protocol::append_record(record, {.layer = 1, .ndim = 0, .shape = {1, 1, 1, 1}},
                          std::vector<std::byte>(4));
  for (int i = 2; i <= 22; ++i) say(*viewer, {{"id", i}, {"method", "ping"}});
  EXPECT_EQ(viewer->texts().back().at("error").at("code"), "rate_limited");
  for (std::uint64_t taken = 1; taken <= 50; ++taken) {
    room_.on_binary(*worker, record, now_);
    EXPECT_FALSE(viewer->queue().pop().text);
    say(*viewer, {{"event", "ack"}, {"params", {{"messages", taken}}}});
  }
  EXPECT_TRUE(viewer->texts().empty()) << "each was taken";
  EXPECT_EQ(viewer->closed, "");
}

TEST_F(RoomLimitsTest, AnAcknowledgementOfNothingNewIsAMessageAsAnyOther) {
  const auto worker = greeted(Role::kWorker);
  const auto viewer = greeted(Role::kViewer);
  for (int i = 2; i <= 100; ++i) say(*viewer, {{"event", "ack"}, {"params", {{"messages", 0}}}});
  EXPECT_TRUE(viewer->violation);
}

}  // namespace
}  // namespace tt::hub

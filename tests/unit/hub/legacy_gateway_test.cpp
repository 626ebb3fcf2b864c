#include "src/hub/legacy/legacy_gateway.h"

#include <cstddef>
#include <semaphore>
#include <vector>

#include "tensor_tracer/protocol/record.h"
#include "tests/unit/hub/room_fixture.h"

/// Viewers of the legacy dialects, in front of a room whose trainer is a recording.
namespace tt::hub {
namespace {

using nlohmann::json;

const json kReplayedRun = {{"id", "1"},
                           {"model", {{"num_layers", 1}, {"seq_length", 2}}},
                           {"micro_batch_size", 1},
                           {"points", {{{"name", "HiddenStates"}, {"flag", 7}, {"features", 2}}}},
                           {"plan", {{"number", 1}, {"entries", {{{"point", "HiddenStates"}}}}}}};
const json kWatchHiddenStates = {{"type", "run_training_step"},
                                 {"visualization_flags", {{"HiddenStates", "true"}}}};

class LegacyGatewayTest : public testing::Test {
 protected:
  void say(Client& client, const json& message) {
    gateway_.on_text(client, message.dump(), Clock::now());
  }
  void join(Client& client) { gateway_.join(client, Clock::now(), false); }
  // What a recording in the place of a trainer sends.
  void show(Client& recording) {
    join(recording);
    say(recording, {{"id", 1},
                    {"method", "hello"},
                    {"params", {{"versions", {1}}, {"role", "worker"}, {"run", kReplayedRun}}}});
    say(recording, {{"event", "state"}, {"params", {{"phase", "replay"}, {"step", 1}}}});
  }

  // So many viewers that watch, and have got their start.
  std::vector<std::unique_ptr<FakeClient>> watching(int count) {
    std::vector<std::unique_ptr<FakeClient>> viewers;
    for (int i = 0; i < count; ++i) {
      viewers.push_back(std::make_unique<FakeClient>(Role::kViewer, room_));
      join(*viewers.back());
      say(*viewers.back(), kWatchHiddenStates);
      const auto texts = viewers.back()->texts();
      EXPECT_EQ(texts.size(), 1U);
      EXPECT_EQ(texts.at(0).at("type"), "start") << texts.at(0);
    }
    return viewers;
  }
  // Waits until the encoder has made it.
  Outgoing next_update(FakeClient& viewer) {
    while (true) {
      gateway_.work();
      if (Outgoing update = viewer.queue().pop(); !update.empty()) return update;
      asked_.acquire();
    }
  }
  // What a native viewer reads of the others.
  json list_viewers() {
    FakeClient native(Role::kViewer, room_);
    join(native);
    say(native,
        {{"id", 1}, {"method", "hello"}, {"params", {{"versions", {1}}, {"role", "viewer"}}}});
    say(native, {{"id", 2}, {"method", "viewers.list"}});
    const json listed = native.texts().back().at("result").at("viewers");
    gateway_.leave(native);
    return listed;
  }
  void leave(const std::vector<std::unique_ptr<FakeClient>>& viewers, Client& recording) {
    for (const auto& viewer : viewers) gateway_.leave(*viewer);
    gateway_.leave(recording);
  }

  std::counting_semaphore<> asked_{0};
  Room room_{RoomOptions{.replay = true,
                         .queue = {.total_bytes = 4000, .fresh_bytes = 300, .batch_bytes = 300}}};
  LegacyGateway gateway_{room_, [this] { asked_.release(); }};
};

std::string hidden_states_record(float number = 0) {
  protocol::RecordHeader header{.plan = 1, .point = 7, .layer = 1, .ndim = 3};
  header.dtype = protocol::Dtype::kF32;
  header.shape = {1, 2, 2, 1};
  header.features = 2;
  std::string bytes;
  const std::vector<float> numbers(4, number);
  protocol::append_record(bytes, header, std::as_bytes(std::span(numbers)));
  return bytes;
}

TEST_F(LegacyGatewayTest, ALegacyViewerJustWatchesARecording) {
  FakeClient recording(Role::kWorker, room_);
  show(recording);
  const auto viewers = watching(2);
  EXPECT_FALSE(room_.survey(Clock::now()).controlled);
  for (const json& text : recording.texts()) EXPECT_FALSE(text.contains("method")) << text;
  room_.on_binary(recording, hidden_states_record(), Clock::now());
  EXPECT_TRUE(viewers[0]->texts().empty());
  EXPECT_EQ(json::parse(*next_update(*viewers[0]).parts.at(0)).at("type"), "update");
  leave(viewers, recording);
}

TEST_F(LegacyGatewayTest, ALegacyViewerIsListedAsOne) {
  FakeClient recording(Role::kWorker, room_);
  show(recording);
  const auto viewers = watching(1);
  const json listed = list_viewers();
  ASSERT_EQ(listed.size(), 2U);
  EXPECT_EQ(listed[0].at("native"), false);
  EXPECT_EQ(listed[0].at("session"), "v1") << "its connection's";
  EXPECT_EQ(listed[1].at("native"), true);
  leave(viewers, recording);
  EXPECT_EQ(list_viewers().size(), 1U);
}

TEST_F(LegacyGatewayTest, AnUpdateIsMadeOnceForAllAndTheOldestIsDropped) {
  FakeClient recording(Role::kWorker, room_);
  show(recording);
  const auto viewers = watching(2);
  for (float number = 0; number < 20; ++number) {  // all of one key
    room_.on_binary(recording, hidden_states_record(number), Clock::now());
    for (const auto& viewer : viewers)
      EXPECT_TRUE(viewer->queue().pop().empty()) << "the encoder has the first one";
  }
  for (const double number : {0.0, 19.0}) {
    const Outgoing first = next_update(*viewers[0]);
    const Outgoing second = viewers[1]->queue().pop();
    ASSERT_TRUE(first.text && second.text) << number;
    EXPECT_EQ(json::parse(*first.parts.at(0)).at("result").at(0), number);
    EXPECT_EQ(first.parts[0]->data(), second.parts.at(0)->data()) << "made once";
    for (const auto& viewer : viewers) {
      EXPECT_TRUE(viewer->queue().pop().empty());
      EXPECT_EQ(viewer->queue().awaits_text(), number == 0) << "its turn has come";
    }
  }
  const json listed = list_viewers();
  EXPECT_EQ(listed[0].at("dropped_records"), 18) << "they were not made";
  EXPECT_EQ(listed[1].at("dropped_records"), 18);
  leave(viewers, recording);
}

TEST_F(LegacyGatewayTest, TheFirstMessageWithAMethodChoosesTheNativeProtocol) {
  FakeClient viewer(Role::kViewer, room_);
  join(viewer);
  say(viewer, {{"type", "ping"}});
  EXPECT_EQ(viewer.texts().at(0), (json{{"type", "pong"}}));
  say(viewer, json::array());
  EXPECT_EQ(viewer.texts().at(0).at("error").at("code"), "invalid_request");
  say(viewer,
      {{"id", 1}, {"method", "hello"}, {"params", {{"versions", {1}}, {"role", "viewer"}}}});
  EXPECT_TRUE(viewer.texts().at(0).contains("result"));
  say(viewer, {{"type", "ping"}});
  EXPECT_EQ(viewer.texts().at(0).at("error").at("code"), "invalid_request");
  gateway_.leave(viewer);
}

TEST_F(LegacyGatewayTest, AFloodOfLegacyMessagesIsCutOff) {
  FakeClient viewer(Role::kViewer, room_);
  const auto now = Clock::now();
  gateway_.join(viewer, now, false);
  std::size_t answers = 0;
  for (int i = 0; i < 1300 && viewer.closed.empty(); ++i) {
    gateway_.on_text(viewer, R"({"type": "ping"})", now);
    answers += viewer.texts().size();
  }
  EXPECT_EQ(answers, 200U);
  EXPECT_EQ(viewer.closed, "too many messages");
  EXPECT_EQ(room_.metrics().rate_limited, 1001U);
  gateway_.leave(viewer);
}

}  // namespace
}  // namespace tt::hub

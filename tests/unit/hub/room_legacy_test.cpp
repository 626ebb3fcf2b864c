#include <cstddef>
#include <semaphore>
#include <vector>

#include "tensor_tracer/protocol/record.h"
#include "tests/unit/hub/room_fixture.h"

/// Viewers of the legacy dialects.
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

class ReplayedRoomTest : public testing::Test {
 protected:
  void say(Client& client, const json& message) {
    room_.on_text(client, message.dump(), Clock::now());
  }
  // What a recording in the place of a trainer sends.
  void show(Client& recording) {
    room_.join(recording, Clock::now());
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
      room_.join(*viewers.back(), Clock::now());
      say(*viewers.back(), kWatchHiddenStates);
      const auto texts = viewers.back()->texts();
      EXPECT_EQ(texts.size(), 1U);
      EXPECT_EQ(texts.at(0).at("type"), "start") << texts.at(0);
    }
    return viewers;
  }
  void take_next_update() {
    made_.acquire();
    room_.take_updates();
  }

  std::counting_semaphore<> made_{0};
  Room room_{RoomOptions{.replay = true,
                         .queue = {.total_bytes = 4000, .fresh_bytes = 300, .batch_bytes = 300},
                         .on_update_made = [this] { made_.release(); }}};
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

TEST_F(ReplayedRoomTest, ALegacyViewerJustWatchesARecording) {
  FakeClient recording(Role::kWorker, room_);
  show(recording);
  const auto viewers = watching(2);
  EXPECT_FALSE(room_.survey(Clock::now()).controlled);
  for (const json& text : recording.texts()) {
    EXPECT_FALSE(text.contains("method")) << text;
  }
  room_.on_binary(recording, hidden_states_record(), Clock::now());
  EXPECT_TRUE(viewers[0]->texts().empty());
  take_next_update();
  EXPECT_EQ(viewers[0]->texts().at(0).at("type"), "update");
  for (const auto& viewer : viewers) {
    room_.leave(*viewer);
  }
  room_.leave(recording);
}

TEST_F(ReplayedRoomTest, ALegacyViewerIsListedAsOne) {
  FakeClient recording(Role::kWorker, room_);
  show(recording);
  const auto viewers = watching(1);
  FakeClient native(Role::kViewer, room_);
  room_.join(native, Clock::now());
  say(native,
      {{"id", 1}, {"method", "hello"}, {"params", {{"versions", {1}}, {"role", "viewer"}}}});
  say(native, {{"id", 2}, {"method", "viewers.list"}});
  const json listed = native.texts().back().at("result").at("viewers");
  ASSERT_EQ(listed.size(), 2U);
  EXPECT_EQ(listed[0].at("native"), false);
  EXPECT_EQ(listed[1].at("native"), true);
  for (Client* client : {static_cast<Client*>(viewers[0].get()), static_cast<Client*>(&native),
                         static_cast<Client*>(&recording)}) {
    room_.leave(*client);
  }
}

TEST_F(ReplayedRoomTest, AnUpdateIsMadeOnceForAllAndTheOldestIsDropped) {
  FakeClient recording(Role::kWorker, room_);
  show(recording);
  const auto viewers = watching(2);
  for (float number = 0; number < 20; ++number) {  // all of one key
    room_.on_binary(recording, hidden_states_record(number), Clock::now());
    for (const auto& viewer : viewers) {
      EXPECT_TRUE(viewer->queue().pop().empty()) << "the encoder has the first one";
    }
  }
  for (const double number : {0.0, 19.0}) {
    take_next_update();
    const Outgoing first = viewers[0]->queue().pop();
    const Outgoing second = viewers[1]->queue().pop();
    ASSERT_TRUE(first.text && second.text) << number;
    EXPECT_EQ(json::parse(*first.parts.at(0)).at("result").at(0), number);
    EXPECT_EQ(first.parts[0]->data(), second.parts.at(0)->data()) << "made once";
    for (const auto& viewer : viewers) {
      EXPECT_TRUE(viewer->queue().pop().empty());
    }
  }
  EXPECT_FALSE(made_.try_acquire()) << "18 of 20 were not made";
  for (const auto& viewer : viewers) {
    EXPECT_EQ(viewer->queue().dropped(), 18U);
    room_.leave(*viewer);
  }
  room_.leave(recording);
}

}  // namespace
}  // namespace tt::hub

#include <filesystem>
#include <utility>

#include "tensor_tracer/record/recorder.h"
#include "tests/unit/hub/room_fixture.h"

/// What the room tells a trainer about the entries of its plan that have a use.
namespace tt::hub {
namespace {

using nlohmann::json;

const json kNobody = {{"count", 0}, {"wanted", false}};

json some(int count, bool wanted, int plan, const std::vector<int>& entries) {
  return {{"count", count}, {"wanted", wanted}, {"plan", plan}, {"entries", entries}};
}

class DemandTest : public RoomTest {
 protected:
  explicit DemandTest(const AlarmOptions& alarms = {}) : RoomTest({.alarms = alarms}) {
    facts_ = json::parse(R"({"id": "1", "prompt_sets": [{"name": "probes"}], "points": [
          {"name": "Tokens", "flag": 1, "first_layer": 0, "last_layer": 0},
          {"name": "MLP1", "flag": 2, "first_layer": 1, "last_layer": 4},
          {"name": "QKV", "flag": 3, "first_layer": 1, "last_layer": 4}],
        "plan": {"number": 3, "entries": [
          {"point": "Tokens"},
          {"point": "MLP1", "layers": "1-2", "compressor": {"kind": "stats"}},
          {"point": "MLP1", "layers": "3-4"},
          {"point": "QKV"},
          {"point": "QKV", "enabled": false},
          {"point": "QKV", "prompts": "probes"}]}})");
    trainer_ = greeted(Role::kWorker, &first_);
  }
  ~DemandTest() override { room_.leave(*trainer_); }
  DemandTest(const DemandTest&) = delete;
  DemandTest& operator=(const DemandTest&) = delete;

  // The last `viewers` that a client was sent since the last call; null: none.
  static json last(FakeClient& client) { return last_of(client.texts()); }
  static json last_of(const std::vector<json>& texts) {
    json found;
    for (const json& text : texts)
      if (text.value("event", "") == "viewers") found = text["params"];
    return found;
  }
  std::unique_ptr<FakeClient> greeted(Role role, json* demand = nullptr, bool watch = true) {
    auto client = join(role);
    json params = {{"versions", {1}}, {"role", role == Role::kViewer ? "viewer" : "worker"}};
    role == Role::kViewer ? params["watch"] = watch : params["run"] = facts_;
    say(*client, {{"id", 1}, {"method", "hello"}, {"params", params}});
    const json told = last(*client);
    if (demand != nullptr) *demand = told;
    return client;
  }
  json subscribed(FakeClient& viewer, const json& params) {
    EXPECT_TRUE(ask(viewer, "subscribe", params).contains("result"));
    return last(*trainer_);
  }
  void set_plan(int number, const json& entries) {
    say(*trainer_,
        {{"event", "plan"},
         {"params", {{"step", 5}, {"plan", {{"number", number}, {"entries", entries}}}}}});
  }

  json first_;
  std::unique_ptr<FakeClient> trainer_;
};

TEST_F(DemandTest, IsTheUnionOfTheViewersSubscriptions) {
  EXPECT_EQ(first_, kNobody);
  const auto ada = greeted(Role::kViewer, nullptr, false);
  EXPECT_EQ(last(*trainer_), json()) << "she does not watch yet";
  EXPECT_EQ(subscribed(*ada, {{"entries", json::array({3})}}), some(1, false, 3, {3}));
  const auto bob = greeted(Role::kViewer, nullptr, false);
  EXPECT_EQ(subscribed(*bob, {{"points", {"MLP1"}}}), some(2, false, 3, {1, 2, 3}));
  EXPECT_EQ(subscribed(*bob, {{"points", {"MLP1"}}, {"layers", "4-9"}}), some(2, false, 3, {2, 3}));
  EXPECT_EQ(subscribed(*bob, {{"layers", "0"}}), some(2, false, 3, {0, 3}));
  EXPECT_EQ(subscribed(*bob, {{"layers", "0"}, {"rate", 5}}), json()) << "it is the same";
  EXPECT_EQ(subscribed(*bob, {{"entries", "all"}}), json({{"count", 2}, {"wanted", false}}));
  room_.leave(*bob);
  EXPECT_EQ(last(*trainer_), some(1, false, 3, {3}));
  json again;
  const auto worker = greeted(Role::kWorker, &again);
  EXPECT_EQ(again, some(1, false, 3, {3})) << "after a reconnect";
  room_.leave(*worker);
  room_.leave(*ada);
}

TEST_F(DemandTest, FollowsThePlan) {
  const auto ada = greeted(Role::kViewer, nullptr, false);
  EXPECT_EQ(subscribed(*ada, {{"points", {"QKV"}}}), some(1, false, 3, {3}));
  set_plan(4, {{{"point", "QKV"}}, {{"point", "MLP1"}}});
  EXPECT_EQ(last(*trainer_), some(1, false, 4, {0}));
  set_plan(5, {{{"point", "QKV"}}});
  EXPECT_EQ(last(*trainer_), json({{"count", 1}, {"wanted", false}})) << "all of it";
  set_plan(6, {{{"point", "MLP1"}}});
  EXPECT_EQ(last(*trainer_), some(1, false, 6, {}));
  room_.leave(*ada);
  EXPECT_EQ(last(*trainer_), kNobody);
}

TEST_F(DemandTest, AnAlarmTakesTheEntriesOfItsCurve) {
  const auto ada = greeted(Role::kViewer, nullptr, false);
  ask(*ada, "control.claim", {{"name", "Ada"}});
  trainer_->texts();
  ask(*ada, "alarms.set",
      {{"name", "a"}, {"point", "MLP1"}, {"statistic", "rms"}, {"test", "nonfinite"}});
  EXPECT_EQ(last(*trainer_), some(0, true, 3, {1}));
  set_plan(4, {{{"point", "QKV"}}});
  EXPECT_EQ(last(*trainer_), kNobody) << "the alarm waits for an entry";
  ask(*ada, "alarms.set", {{"name", "b"}, {"scalar", "loss"}, {"test", "nonfinite"}});
  EXPECT_EQ(last(*trainer_), json()) << "a scalar needs no record";
  room_.leave(*ada);
}

TEST_F(DemandTest, TheRecordingTakesWhatItsFilterKeeps) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "demand_test";
  std::filesystem::create_directories(folder);
  const auto recorded = [&](record::RecorderOptions options) {
    options.path = (folder / "run.ttrec").string();
    auto recorder = std::move(record::Recorder::open(options)).value();
    trainer_->texts();
    room_.record_to(*recorder, options.path);
    const json told = last(*trainer_);
    room_.end_recording();
    return told;
  };
  EXPECT_EQ(recorded({.takes_traced = true}), json({{"count", 0}, {"wanted", true}}));
  EXPECT_EQ(recorded({.filter = {.points = {{"MLP1"}}}}), some(0, true, 3, {1, 2}));
  EXPECT_EQ(recorded({.filter = {.layers = {{3}}}}), some(0, true, 3, {0, 2, 3}))
      << "points without layers are always kept";
  EXPECT_EQ(recorded({.takes_traced = false}), kNobody);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tt::hub

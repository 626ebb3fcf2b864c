#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <span>

#include "tests/unit/hub/room_fixture.h"

/// What the room says of projections that a plan takes with `mean_over`.
namespace tt::hub {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::string temporary_alarms() {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "room_projections_test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return (folder / "alarms.json").string();
}

class RoomProjectionsTest : public RoomTest {
 protected:
  explicit RoomProjectionsTest(const AlarmOptions& alarms = {}) : RoomTest({.alarms = alarms}) {
    facts_ =
        json::parse(R"({"id": "1", "points": [{"name": "HiddenStates", "path": "layers[n].output"}],
        "prompt_sets": [{"name": "probes"}],
        "plan": {"number": 3, "entries": [
          {"point": "HiddenStates", "prompts": "probes",
           "compressor": {"kind": "projection", "vectors": ["evil"]}},
          {"point": "HiddenStates", "prompts": "probes", "mean_over": "last-prompt",
           "compressor": {"kind": "projection", "vectors": ["good", "evil"]}},
          {"point": "HiddenStates", "prompts": "probes", "mean_over": "response", "responses": true,
           "compressor": {"kind": "projection", "vectors": ["evil"], "cosine": true}}]}})");
    begin();
  }
  ~RoomProjectionsTest() override {
    room_.leave(*trainer_);
    room_.leave(*viewer_);
  }
  RoomProjectionsTest(const RoomProjectionsTest&) = delete;
  RoomProjectionsTest& operator=(const RoomProjectionsTest&) = delete;

  void begin() {
    trainer_ = greeted(Role::kWorker);
    viewer_ = greeted(Role::kViewer);
    ask(*viewer_, "control.claim", {{"name", "Ada"}});
    viewer_->texts();
  }
  // The trainer comes back, with the facts as they are now.
  void join_again() {
    room_.leave(*trainer_);
    trainer_ = greeted(Role::kWorker);
    viewer_->texts();
  }
  // Two prompts in a record, one number for each vector of the entry.
  void send(std::uint64_t step, std::uint16_t layer, std::uint32_t entry,
            const std::vector<float>& numbers) {
    protocol::RecordHeader header{.step = step, .plan = 3, .entry = entry, .layer = layer};
    header.prompt_set = 1;
    header.phase = protocol::RecordPhase::kEval;
    header.compressor = protocol::RecordCompressor::kProjection;
    const std::uint32_t vectors = entry == 1 ? 2 : 1;
    header.ndim = 3;
    header.shape = {static_cast<std::uint32_t>(numbers.size()) / vectors, 1, vectors, 1};
    std::string bytes;
    protocol::append_record(bytes, header, std::as_bytes(std::span(numbers)));
    room_.on_binary(*trainer_, bytes, now_);
  }
  void end_step(std::uint64_t number) {
    say(*trainer_, {{"event", "step"}, {"params", {{"step", number}, {"loss", 1.0}}}});
  }
  std::vector<json> told(const char* event) {
    std::vector<json> all;
    for (const json& text : viewer_->texts())
      if (text.value("event", "") == event) all.push_back(text["params"]);
    return all;
  }
  std::vector<std::string> fired() {
    std::vector<std::string> all;
    for (const json& params : told("alarm"))
      if (params["change"] == "fired")
        all.push_back(std::to_string(params["step"].get<int>()) + " " +
                      std::to_string(params["layer"].get<int>()));
    return all;
  }
  void set_alarm(const json& members) {
    json alarm = {{"name", "evil"},
                  {"point", "HiddenStates"},
                  {"vector", "evil"},
                  {"prompts", "probes"},
                  {"mean_over", "last-prompt"}};
    alarm.merge_patch(members);
    const json answer = ask(*viewer_, "alarms.set", alarm);
    ASSERT_TRUE(answer.contains("result")) << answer;
    viewer_->texts();
  }

  std::unique_ptr<FakeClient> trainer_;
  std::unique_ptr<FakeClient> viewer_;  // holds the lease
};

TEST_F(RoomProjectionsTest, TheMeanOverAllPromptsIsToldWithTheBaseline) {
  send(0, 1, 1, {1, 10, 3, 20});  // good, evil of two prompts
  send(0, 1, 1, {5, 30});         // the third prompt, in another micro-batch
  send(0, 2, 1, {0, 1, 0, 3});
  end_step(1);
  const auto first = told("projections");
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0], json::parse(R"({"step": 0, "series": [
      {"point": "HiddenStates", "vector": "evil", "prompts": "probes", "mean_over": "last-prompt",
       "scale": "normalized", "layers": [1, 2], "values": [20.0, 2.0], "baseline": [20.0, 2.0],
       "deviation": [10.0, 1.4142135623730951], "change": [0.0, 0.0]},
      {"point": "HiddenStates", "vector": "good", "prompts": "probes", "mean_over": "last-prompt",
       "scale": "normalized", "layers": [1, 2], "values": [3.0, 0.0], "baseline": [3.0, 0.0],
       "deviation": [2.0, 0.0], "change": [0.0, 0.0]}]})"));
  send(50, 1, 1, {1, 40, 3, 50, 5, 60});
  end_step(50);
  const auto second = told("projections");
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0]["step"], 50);
  EXPECT_EQ(second[0]["series"][0]["values"], json({50.0}));
  EXPECT_EQ(second[0]["series"][0]["change"], json({30.0}));
  EXPECT_EQ(second[0]["series"][1]["change"], json({0.0}));
  end_step(51);
  EXPECT_TRUE(told("projections").empty()) << "nothing is new";
}

TEST_F(RoomProjectionsTest, ATrainerDoesNotTellThem) {
  say(*trainer_, {{"event", "projections"}, {"params", {{"step", 1}, {"series", json::array()}}}});
  EXPECT_TRUE(told("projections").empty()) << "only a replay tells them";
}

TEST_F(RoomProjectionsTest, AMeanWaitsForAllPrompts) {
  facts_["prompt_sets"][0]["prompts"] = {"a", "b", "c"};
  facts_["plan"]["entries"][1]["rows"] = 0;
  join_again();
  send(50, 1, 1, {1, 40, 3, 50});
  end_step(50);
  EXPECT_TRUE(told("projections").empty()) << "the third prompt is on its way";
  send(50, 1, 1, {5, 60});
  const auto late = told("projections");
  ASSERT_EQ(late.size(), 1U);
  EXPECT_EQ(late[0]["step"], 50);
  EXPECT_EQ(late[0]["series"][0]["values"], json({50.0}));
  send(100, 1, 1, {1, 2, 3, 4});  // a record of the third prompt is lost
  end_step(100);
  EXPECT_TRUE(told("projections").empty());
  send(150, 1, 1, {1, 40, 3, 50, 5, 60});
  end_step(150);
  const auto newest = told("projections");
  ASSERT_EQ(newest.size(), 1U) << "it replaces that of step 100, which waits";
  EXPECT_EQ(newest[0]["step"], 150);
}

TEST_F(RoomProjectionsTest, ASlowViewerGetsTheNewestMeansOfEachSeries) {
  for (const std::uint64_t step : {1U, 2U, 3U}) {
    send(step, 1, 1, {1, 10, 3, 20});
    end_step(step);
    send(step, 1, 2, {4, 6});  // an event of the same step
  }
  std::vector<std::string> means;
  for (const json& event : told("projections"))
    means.push_back(event["step"].dump() + " " +
                    event["series"][0]["mean_over"].get<std::string>());
  EXPECT_THAT(means, testing::UnorderedElementsAre("3 last-prompt", "3 response"));
}

TEST_F(RoomProjectionsTest, WithoutABaselineThereIsNoDifference) {
  send(50, 1, 2, {0.5F, kNan});  // the second prompt has no response
  end_step(50);
  const auto events = told("projections");
  ASSERT_EQ(events.size(), 1U);
  const json& series = events[0]["series"][0];
  EXPECT_EQ(series["mean_over"], "response");
  EXPECT_EQ(series["scale"], "cosine");
  EXPECT_EQ(series["values"], json({0.5}));
  EXPECT_EQ(series["baseline"], json({nullptr}));
  EXPECT_EQ(series["deviation"], json({nullptr}));
  EXPECT_EQ(series["change"], json({nullptr}));
}

TEST_F(RoomProjectionsTest, EachTokenIsNotAMean) {
  send(0, 1, 0, {1, 2});
  end_step(1);
  EXPECT_TRUE(told("projections").empty());
}

TEST_F(RoomProjectionsTest, ARunThatResumesHasItsBaselineAtTheCheckpoint) {
  facts_["id"] = "2";
  facts_["parent"] = {{"id", "1"}, {"step", 100U}};
  join_again();
  send(100, 1, 2, {1, 3});
  send(150, 1, 2, {4, 4});
  end_step(150);
  const auto events = told("projections");
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1]["series"][0]["change"], json({2.0}));
}

TEST_F(RoomProjectionsTest, ARunMayNameTheStepOfItsBaseline) {
  facts_["id"] = "2";
  facts_["baseline_step"] = 1U;
  join_again();
  send(1, 1, 2, {1, 3});
  send(2, 1, 2, {4, 4});
  end_step(2);
  const auto events = told("projections");
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1]["series"][0]["change"], json({2.0}));
}

TEST_F(RoomProjectionsTest, MetricsHaveTheNewestMeans) {
  send(0, 7, 2, {1, 3});
  send(50, 7, 2, {4, 5});
  end_step(50);
  const std::string text = render_metrics(room_.metrics(), room_.survey(now_), {});
  const std::string labels =
      "{point=\"HiddenStates\",layer=\"7\",vector=\"evil\",prompts=\"probes\",mean_over="
      "\"response\","
      "scale=\"cosine\"} ";
  EXPECT_THAT(text, HasSubstr("tensor_tracer_projection" + labels + "4.5\n"));
  EXPECT_THAT(text, HasSubstr("tensor_tracer_projection_baseline" + labels + "2\n"));
  EXPECT_THAT(text, HasSubstr("tensor_tracer_projection_change" + labels + "2.5\n"));
}

TEST_F(RoomProjectionsTest, AnAlarmComparesTheSlopeOfTheMeans) {
  set_alarm({{"test", "rising"}, {"value", 0.9}, {"window", 3}});
  for (const std::uint64_t step : {0U, 10U, 20U, 30U}) {
    const auto mean = static_cast<float>(std::min(step, std::uint64_t{20}));
    send(step, 1, 1, {0, mean - 1, 0, mean + 1});
    send(step, 2, 1, {0, 3, 0, 3});
    end_step(std::max(step, std::uint64_t{1}));
  }
  std::vector<std::string> changes;
  for (const json& alarm : told("alarm")) {
    changes.push_back(alarm["change"].get<std::string>() + " " + alarm["step"].dump());
    EXPECT_TRUE(alarm["change"] == "cleared" || alarm["layer"] == 1) << alarm;
  }
  EXPECT_EQ(changes, (std::vector<std::string>{"fired 20", "cleared 30"}))
      << "the means rise by 1 per step, and by 0.5 from step 10 to 30";
}

TEST_F(RoomProjectionsTest, AnAlarmComparesTheDifferenceFromTheBaseline) {
  set_alarm({{"baseline", true}, {"test", "above"}, {"value", 5}});
  send(0, 1, 1, {0, 10, 0, 12});
  send(0, 2, 1, {0, 0, 0, 0});
  end_step(1);
  send(2, 1, 1, {0, 15, 0, 17});
  send(2, 2, 1, {0, 6, 0, 4});
  end_step(2);
  EXPECT_EQ(fired(), std::vector<std::string>()) << "5 is not above 5";
  send(3, 1, 1, {0, 15, 0, 17});
  send(3, 2, 1, {0, 6, 0, 6});
  end_step(3);
  EXPECT_EQ(fired(), std::vector<std::string>{"3 2"});
}

TEST_F(RoomProjectionsTest, AnAlarmMeasuresInTheSpreadOfThePromptsAtTheStart) {
  set_alarm({{"baseline", true}, {"test", "sigma"}, {"side", "above"}, {"k", 2}});
  send(0, 1, 1, {0, 1, 0, 3});  // the mean is 2, the deviation the root of 2
  end_step(1);
  send(2, 1, 1, {0, 2, 0, 7});
  end_step(2);
  EXPECT_EQ(fired(), std::vector<std::string>()) << "2.5 is below 2.83";
  send(3, 1, 1, {0, 3, 0, 7});
  end_step(3);
  const auto events = told("alarm");
  ASSERT_EQ(events.size(), 1U);
  EXPECT_THAT(events[0]["message"].get<std::string>(),
              HasSubstr("in layer 1 is 2.1 standard deviations above 2, the baseline of the run's "
                        "start at step 3: 5"));
}

TEST_F(RoomProjectionsTest, WithoutABaselineSuchAnAlarmWaits) {
  set_alarm({{"baseline", true}, {"test", "above"}, {"value", -99}});
  send(50, 1, 1, {0, 1, 0, 3});
  end_step(50);
  EXPECT_EQ(fired(), std::vector<std::string>());
  const json alarm = ask(*viewer_, "alarms.list").at("result").at("alarms").at(0);
  EXPECT_EQ(alarm.at("state"), "waiting");
}

TEST_F(RoomProjectionsTest, AnAlarmOfTheTokensTakesNoMeansAndTheOtherWayRound) {
  set_alarm({{"test", "above"}, {"value", 5}});
  send(1, 1, 0, {9, 9});  // each token
  end_step(1);
  EXPECT_EQ(fired(), std::vector<std::string>());
  set_alarm({{"test", "above"}, {"value", 5}, {"mean_over", nullptr}, {"name", "tokens"}});
  send(2, 1, 1, {0, 9, 0, 9});
  end_step(2);
  EXPECT_EQ(fired(), std::vector<std::string>{"2 1"}) << "the first alarm only";
}

class RoomBaselineFileTest : public RoomProjectionsTest {
 protected:
  RoomBaselineFileTest() : RoomProjectionsTest({.path = temporary_alarms(), .run_id = "1"}) {}
};

TEST_F(RoomBaselineFileTest, BaselinesOutliveTheHub) {
  send(0, 1, 2, {1, 3});
  end_step(1);
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "room_projections_test";
  ASSERT_TRUE(std::filesystem::exists(folder / "baselines.json"));
  const auto change_in = [&](const std::string& run) -> json {
    ProjectionBook book((folder / "baselines.json").string(), run);
    book.follow(facts_);
    protocol::RecordHeader header{.step = 50, .plan = 3, .entry = 2, .layer = 1};
    header.compressor = protocol::RecordCompressor::kProjection;
    header.ndim = 3;
    header.shape = {1, 1, 1, 1};
    const std::vector<float> number = {7};
    std::string bytes;
    protocol::append_record(bytes, header, std::as_bytes(std::span(number)));
    protocol::RecordReader reader(bytes, protocol::RecordCheck::kHeader);
    book.take(*reader.next());
    return describe(book.finish())["series"][0]["change"];
  };
  EXPECT_EQ(change_in("1"), json({5.0}));
  EXPECT_EQ(change_in("2"), json({nullptr})) << "of another run";
}

}  // namespace
}  // namespace tt::hub

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "tests/unit/hub/room_fixture.h"

/// What the room does with alarms.
namespace tt::hub {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

json high_loss() { return {{"name", "high"}, {"scalar", "loss"}, {"test", "above"}, {"value", 5}}; }

class RoomAlarmsTest : public RoomTest {
 protected:
  explicit RoomAlarmsTest(const AlarmOptions& alarms = {}) : RoomTest({.alarms = alarms}) {
    facts_ = json::parse(R"({"id": "1", "points": [{"name": "MLP1", "path": "layers[n].mlp.fc1"},
          {"name": "attention.entropy", "features": 2}, {"name": "LogitLens", "features": 256},
          {"name": "Updates", "features": 2, "parameters": ["embedding", "layers[1].norm"],
           "columns": ["weight_norm", "update_ratio"]}],
        "prompt_sets": [{"name": "other"}, {"name": "probes"},
          {"name": "uneven", "tokens": [[7, 7, 7, 7], [7], [7, 7]]}],
        "plan": {"number": 3, "entries": [
          {"point": "MLP1", "layers": "1-4", "compressor": {"kind": "stats"}},
          {"point": "MLP1", "compressor": {"kind": "projection", "vectors": ["good", "evil"]}},
          {"point": "MLP1", "prompts": "probes", "compressor": {"kind": "projection", "vectors": ["evil"]}},
          {"point": "attention.entropy", "compressor": {"kind": "none"}},
          {"point": "LogitLens", "compressor": {"kind": "topk", "k": 2}},
          {"point": "Updates", "compressor": {"kind": "none"}},
          {"point": "MLP1", "prompts": "uneven", "tokens": [1, 4],
           "compressor": {"kind": "projection", "vectors": ["evil"]}},
          {"point": "LogitLens", "prompts": "uneven", "compressor": {"kind": "topk", "k": 2}}]}})");
    trainer_ = greeted(Role::kWorker);
    viewer_ = greeted(Role::kViewer);
    ask(*viewer_, "control.claim", {{"name", "Ada"}});
    trainer_->texts();
  }
  ~RoomAlarmsTest() override {
    room_.leave(*trainer_);
    room_.leave(*viewer_);
  }
  RoomAlarmsTest(const RoomAlarmsTest&) = delete;
  RoomAlarmsTest& operator=(const RoomAlarmsTest&) = delete;

  void step(std::uint64_t number, const json& loss) {
    say(*trainer_, {{"event", "step"}, {"params", {{"step", number}, {"loss", loss}}}});
  }
  void set(const json& alarm) {
    const json answer = ask(*viewer_, "alarms.set", alarm);
    ASSERT_TRUE(answer.contains("result")) << answer;
  }
  json alarm(const std::string& name = "high") {
    const json answer = ask(*viewer_, "alarms.list");
    for (const json& one : answer.at("result").at("alarms"))
      if (one.at("name") == name) return one;
    return {};
  }
  // "where: message" of the refusal.
  std::string refusal(const json& alarm) {
    const json answer = ask(*viewer_, "alarms.set", alarm);
    if (!answer.contains("error")) return "";
    const json& error = answer["error"];
    return error.value("where", "") + ": " + error.at("message").get<std::string>();
  }
  // "change step layer" of each `alarm` event that waits for a client.
  static std::vector<std::string> changes(FakeClient& client) {
    std::vector<std::string> all;
    for (const json& text : client.texts()) {
      if (text.value("event", "") != "alarm" || !text["params"].contains("change")) continue;
      const json& params = text["params"];
      all.push_back(params["change"].get<std::string>() + " " +
                    std::to_string(params.value("step", 0)) + " " +
                    std::to_string(params.value("layer", 0)));
    }
    return all;
  }
  void send_record(std::uint64_t step, std::uint16_t layer, std::uint32_t entry,
                   const std::vector<float>& numbers, std::vector<std::uint32_t> shape = {},
                   std::uint32_t prompt_set = 0, std::uint32_t first_row = 0) {
    using protocol::RecordCompressor;
    protocol::RecordHeader header{.step = step, .plan = 3, .entry = entry, .layer = layer};
    header.prompt_set = prompt_set;
    header.first_row = first_row;
    header.phase = prompt_set > 0 ? protocol::RecordPhase::kEval : protocol::RecordPhase::kTrain;
    header.compressor = std::array{RecordCompressor::kStats,      RecordCompressor::kProjection,
                                   RecordCompressor::kProjection, RecordCompressor::kNone,
                                   RecordCompressor::kTopK,       RecordCompressor::kNone,
                                   RecordCompressor::kProjection, RecordCompressor::kTopK}[entry];
    if (shape.empty()) shape = {static_cast<std::uint32_t>(numbers.size())};
    header.ndim = static_cast<std::uint8_t>(shape.size());
    std::ranges::copy(shape, header.shape.begin());
    std::string bytes;
    protocol::append_record(bytes, header, std::as_bytes(std::span(numbers)));
    room_.on_binary(*trainer_, bytes, now_);
  }
  // Of `stats`, with this norm of 4 numbers, of which `bad` are not finite.
  void send_stats(std::uint64_t step, std::uint16_t layer, float norm, float bad = 0) {
    send_record(step, layer, 0, {4, 0.5F, 0, -1, 1, norm, 0.25F, bad, 0, 0});
  }

  std::unique_ptr<FakeClient> trainer_;
  std::unique_ptr<FakeClient> viewer_;  // holds the lease
};

TEST_F(RoomAlarmsTest, EveryViewerSeesItFireAndClear) {
  const auto other = greeted(Role::kViewer);
  set(high_loss());
  EXPECT_EQ(changes(*other), std::vector<std::string>{"set 0 0"});
  step(1, 4.0);
  step(2, 6.0);
  step(3, 7.0);
  step(4, 3.0);
  const std::vector<std::string> expected = {"fired 2 0", "cleared 4 0"};
  EXPECT_EQ(changes(*viewer_), expected);
  EXPECT_EQ(changes(*other), expected);
  EXPECT_EQ(alarm().at("fires"), 1);
  EXPECT_EQ(alarm().at("state"), "quiet");
  room_.leave(*other);
}

TEST_F(RoomAlarmsTest, ALateViewerSeesTheAlarmsInItsHello) {
  set(high_loss());
  step(1, 6.0);
  const auto late = join(Role::kViewer);
  say(*late, {{"id", 1}, {"method", "hello"}, {"params", {{"versions", {1}}, {"role", "viewer"}}}});
  const json alarms = late->texts().at(0).at("result").at("alarms");
  ASSERT_EQ(alarms.size(), 1U);
  EXPECT_EQ(alarms[0].at("state"), "firing");
  EXPECT_EQ(alarms[0].at("last").at("step"), 1);
  EXPECT_EQ(alarms[0].at("last").at("value"), 6.0);
  room_.leave(*late);
}

TEST_F(RoomAlarmsTest, SettingNeedsTheLeaseListingDoesNot) {
  const auto other = greeted(Role::kViewer);
  set(high_loss());
  EXPECT_EQ(ask(*other, "alarms.set", high_loss()).at("error").at("code"), "not_controller");
  EXPECT_EQ(ask(*other, "alarms.remove", {{"name", "high"}}).at("error").at("code"),
            "not_controller");
  EXPECT_EQ(ask(*other, "alarms.list").at("result").at("alarms").size(), 1U);
  EXPECT_TRUE(ask(*viewer_, "alarms.remove", {{"name", "high"}}).contains("result"));
  EXPECT_EQ(changes(*other), std::vector<std::string>{"removed 0 0"});
  EXPECT_EQ(ask(*viewer_, "alarms.remove", {{"name", "high"}}).at("error").at("code"), "not_found");
  room_.leave(*other);
}

TEST_F(RoomAlarmsTest, ThereAreThirtyTwoAndTheSameNameReplaces) {
  for (std::size_t i = 0; i < AlarmDesk::kMaxAlarms; ++i) {
    json one = high_loss();
    one["name"] = "a" + std::to_string(i);
    set(one);
  }
  EXPECT_EQ(refusal(high_loss()), "name: a run has at most 32 alarms");
  json again = high_loss();
  again["name"] = "a7";
  again["value"] = 9;
  set(again);
  step(1, 8.0);
  EXPECT_EQ(room_.survey(now_).alarms.fired, 31U);
  EXPECT_EQ(room_.survey(now_).alarms.firing.size(), 32U);
}

TEST_F(RoomAlarmsTest, AScalarBeginsWithTheStepsThatTheHubHasKept) {
  for (std::uint64_t i = 1; i <= 4; ++i) step(i, static_cast<double>(i % 2));
  set({{"name", "high"}, {"scalar", "loss"}, {"test", "sigma"}, {"k", 3}, {"window", 4U}});
  viewer_->texts();
  step(5, 2.0);
  EXPECT_EQ(changes(*viewer_), std::vector<std::string>()) << "0.5 and 3 times 0.58";
  step(6, 2.6);
  EXPECT_EQ(changes(*viewer_), std::vector<std::string>()) << "2 has widened the window";
  step(7, 9.0);
  EXPECT_EQ(changes(*viewer_), std::vector<std::string>{"fired 7 0"});
}

TEST_F(RoomAlarmsTest, ManyValuesInARowCanBeAskedFor) {
  json alarm = high_loss();
  alarm["consecutive"] = 3U;
  set(alarm);
  const std::vector<double> losses = {6, 6, 1, 6, 6, 6, 6, 1};
  for (std::size_t i = 0; i < losses.size(); ++i) step(i + 1, losses[i]);
  const std::vector<std::string> expected = {"fired 6 0", "cleared 8 0"};
  EXPECT_EQ(changes(*viewer_), expected);
}

TEST_F(RoomAlarmsTest, NanIsShownAsNan) {
  set({{"name", "high"}, {"scalar", "loss"}, {"test", "nonfinite"}});
  step(1, "NaN");
  EXPECT_EQ(alarm().at("last").at("value"), "NaN");
  EXPECT_EQ(alarm().at("last").at("message"), "alarm high: loss is NaN at step 1");
}

TEST_F(RoomAlarmsTest, TheFirstLayerThatLeavesItsRangeIsNamed) {
  set({{"name", "high"},
       {"point", "MLP1"},
       {"statistic", "rms"},
       {"test", "range"},
       {"low", 0},
       {"high", 10}});
  viewer_->texts();
  send_stats(1, 4, 22);  // the root of 4 is 2: 11
  send_stats(1, 1, 2);
  send_stats(1, 3, 40);
  EXPECT_EQ(changes(*viewer_), std::vector<std::string>()) << "the step has not ended";
  step(1, 1.0);
  EXPECT_EQ(changes(*viewer_), std::vector<std::string>{"fired 1 3"});
  EXPECT_EQ(alarm().at("firing_layers"), json({3, 4}));
  EXPECT_EQ(alarm().at("last").at("value"), 20.0);
  EXPECT_NE(alarm().at("last").at("message").get<std::string>().find(
                "rms of MLP1 in layer 3 is outside of 0 to 10 at step 1: 20"),
            std::string::npos)
      << alarm();
  send_stats(2, 3, 2);
  step(2, 1.0);
  EXPECT_EQ(changes(*viewer_), std::vector<std::string>()) << "layer 4 is still outside";
  send_stats(3, 4, 2);
  say(*trainer_, {{"event", "state"}, {"params", {{"phase", "finished"}, {"step", 3}}}});
  EXPECT_EQ(changes(*viewer_), std::vector<std::string>{"cleared 3 4"});
}

TEST_F(RoomAlarmsTest, EachStatisticIsThatOfTheRecord) {
  const std::vector<std::pair<std::string, double>> values = {
      {"mean", 0.5}, {"std", 0.0},    {"min", -1.0},      {"max", 1.0},
      {"norm", 6.0}, {"zeros", 0.25}, {"nonfinite", 3.0}, {"rms", 6.0}};
  for (const auto& [statistic, value] : values) {
    set({{"name", statistic},
         {"point", "layers[n].mlp.fc1"},
         {"statistic", statistic},
         {"test", "range"},
         {"low", -99},
         {"high", -98}});
  }
  send_stats(1, 1, 6, 3);  // one finite number: its rms is the norm
  step(1, 1.0);
  for (const auto& [statistic, value] : values)
    EXPECT_EQ(alarm(statistic).at("last").at("value"), value) << statistic;
}

TEST_F(RoomAlarmsTest, AProjectionIsTheMeanOverTokensOrOverLastTokens) {
  const json evil = {{"point", "MLP1"}, {"vector", "evil"}, {"test", "above"}, {"value", -99}};
  const auto named = [&](const char* name, json more) {
    json alarm = evil;
    alarm["name"] = name;
    alarm.update(more);
    return alarm;
  };
  set(named("mean", {{"over", "mean"}}));
  set(named("last", {{"over", "last"}}));
  set(named("of prompts", {{"prompts", "probes"}}));
  // Two rows of three tokens on two vectors.
  send_record(1, 2, 1, {0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6}, {2, 3, 2});
  send_record(1, 2, 2, {7, 9}, {1, 2, 1}, 2);
  send_record(1, 2, 2, {70, 90}, {1, 2, 1}, 1);  // of another prompt set
  step(1, 1.0);
  EXPECT_EQ(alarm("mean").at("last").at("value"), 3.5);
  EXPECT_EQ(alarm("last").at("last").at("value"), 4.5);
  EXPECT_EQ(alarm("of prompts").at("last").at("value"), 8.0);
}

TEST_F(RoomAlarmsTest, ThePaddingAfterShortPromptsDoesNotCount) {
  const auto watch = [&](const std::string& name, json more) {
    json alarm = {{"name", name}, {"prompts", "uneven"}, {"test", "above"}, {"value", -99}};
    alarm.update(more);
    set(alarm);
  };
  // An alarm that is set again fires again.
  const auto watch_all = [&] {
    for (const char* over : {"mean", "largest", "last"})
      watch(over, {{"point", "MLP1"}, {"vector", "evil"}, {"over", over}});
    watch("lens", {{"point", "LogitLens"}, {"statistic", "entropy"}});
  };
  const auto values = [&](std::uint64_t number) {
    step(number, 1.0);
    std::vector<double> all;
    for (const char* name : {"mean", "largest", "last"})
      all.push_back(alarm(name).at("last").at("value"));
    return all;
  };
  watch_all();
  // The prompts have 4, 1 and 2 tokens, and the entry of the projection begins with token 1.
  send_record(1, 2, 6, {1, 2, 6, 99, 99, 99, 3, 99, 99}, {3, 3, 1}, 3);
  EXPECT_EQ(values(1), (std::vector{3.0, 6.0, 4.5}));
  watch_all();
  send_record(2, 2, 6, {99, 99, 99, 5, 99, 99}, {2, 3, 1}, 3, 1);
  EXPECT_EQ(values(2), (std::vector{5.0, 5.0, 5.0}));
  watch_all();
  send_record(3, 2, 6, {99, 99, 99}, {1, 3, 1}, 3, 1);  // no token at all
  std::vector<float> numbers(12, 0);
  numbers.insert(numbers.end(), {10, 1, 20, 2, 30, 6, 5, 65, 3, 66, 7, 67});
  send_record(3, 2, 7, numbers, {4, 1, 3, 2}, 3, 2);
  step(3, 1.0);
  EXPECT_FALSE(alarm("mean").contains("last"));
  EXPECT_EQ(alarm("lens").at("last").at("value"), 1.5);
}

TEST_F(RoomAlarmsTest, TheSecondRowOfStatisticsHasKurtosisAndNorms) {
  const std::vector<std::pair<std::string, double>> values = {
      {"kurtosis", 3.5},       {"row_norm_min", 1.0},    {"row_norm_mean", 2.0},
      {"row_norm_max", 3.0},   {"column_norm_min", 4.0}, {"column_norm_mean", 5.0},
      {"column_norm_max", 6.0}};
  for (const auto& [statistic, value] : values) {
    set({{"name", statistic},
         {"point", "MLP1"},
         {"statistic", statistic},
         {"test", "above"},
         {"value", -1}});
  }
  send_stats(1, 1, 6);  // of an earlier version: one row
  step(1, 1.0);
  EXPECT_FALSE(alarm("kurtosis").contains("last"));
  send_record(2, 1, 0,
              {4, 0.5F, 0, -1, 1, 6, 0, 0, 0, 0, 7, 7, 3.5F, 2.5F, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0},
              {2, 12});
  step(2, 1.0);
  for (const auto& [statistic, value] : values)
    EXPECT_EQ(alarm(statistic).at("last").at("value"), value) << statistic;
}

TEST_F(RoomAlarmsTest, AValueIsThatOfItsColumnAndParameterOverTheLines) {
  const auto watch = [&](const char* name, const char* point, json more) {
    json alarm = {{"name", name},
                  {"point", point},
                  {"statistic", "value"},
                  {"test", "above"},
                  {"value", -99}};
    alarm.update(more);
    set(alarm);
  };
  watch("head", "attention.entropy", {{"column", "1"}});
  watch("largest", "attention.entropy", {{"column", "1"}, {"over", "largest"}});
  watch("last", "attention.entropy", {{"column", "0"}, {"over", "last"}});
  watch("heads", "attention.entropy", json::object());
  watch("ratio", "Updates", {{"column", "update_ratio"}, {"parameter", "layers[1].norm"}});
  watch("any ratio", "Updates", {{"column", "update_ratio"}, {"over", "largest"}});
  // One row of three tokens and two heads; two parameters and two columns.
  send_record(1, 2, 3, {1, 2, 3, 4, 5, 9}, {1, 3, 2});
  send_record(1, 0, 5, {10, 0.5F, 20, 0.25F}, {1, 2, 2});
  step(1, 1.0);
  const std::vector<std::pair<std::string, double>> values = {{"head", 5.0},   {"largest", 9.0},
                                                              {"last", 5.0},   {"heads", 4.0},
                                                              {"ratio", 0.25}, {"any ratio", 0.5}};
  for (const auto& [name, value] : values)
    EXPECT_EQ(alarm(name).at("last").at("value"), value) << name;
  EXPECT_NE(alarm("ratio").at("last").at("message").get<std::string>().find(
                "Updates[update_ratio] of layers[1].norm is above -99"),
            std::string::npos);
  json wrong = {{"name", "a"}, {"point", "Updates"}, {"statistic", "value"}, {"test", "nonfinite"}};
  wrong["column"] = "2";
  EXPECT_EQ(refusal(wrong), "column: Updates has no column 2");
  wrong["column"] = "1";
  wrong["parameter"] = "head";
  EXPECT_EQ(refusal(wrong), "parameter: Updates has no parameter head");
}

TEST_F(RoomAlarmsTest, APredictionIsTheMeanOverTheTokensWhoseTargetIsKnown) {
  for (const char* statistic : {"log_sum_exp", "entropy", "loss"}) {
    for (const char* over : {"mean", "largest", "last"}) {
      set({{"name", std::string(statistic) + " " + over},
           {"point", "LogitLens"},
           {"statistic", statistic},
           {"over", over},
           {"test", "above"},
           {"value", -99}});
    }
  }
  // k = 2: two planes of the best and two of the softmax, three tokens; the last has no target.
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> best(12, 0);
  std::vector<float> numbers = best;
  numbers.insert(numbers.end(), {10, 1, 20, 2, 30, 6, 5, 65, 3, 66, nan, -1});
  send_record(1, 2, 4, numbers, {4, 1, 3, 2});
  send_record(1, 3, 4, best, {2, 1, 3, 2});  // not of a vocabulary
  step(1, 1.0);
  const std::vector<std::pair<std::string, double>> values = {
      {"log_sum_exp mean", 20}, {"log_sum_exp last", 30}, {"entropy mean", 3},
      {"entropy largest", 6},   {"loss mean", 4},         {"loss largest", 5},
      {"loss last", 3}};
  for (const auto& [name, value] : values) {
    EXPECT_EQ(alarm(name).at("last").at("value"), value) << name;
    EXPECT_EQ(alarm(name).at("last").at("layer"), 2) << name;
  }
}

TEST_F(RoomAlarmsTest, ThePlanMustHaveAnEntryForIt) {
  const json good = {{"name", "a"}, {"point", "MLP1"}, {"statistic", "rms"}, {"test", "nonfinite"}};
  const auto with = [&](const json& changes) {
    json alarm = good;
    alarm.merge_patch(changes);
    return refusal(alarm);
  };
  EXPECT_EQ(with(json::object()), "");
  EXPECT_EQ(with({{"point", "MLP9"}}), "point: the run has no point MLP9");
  EXPECT_EQ(with({{"direction", "gradient"}}), "point: no entry of the plan takes these records");
  EXPECT_EQ(with({{"phase", "eval"}}), "point: no entry of the plan takes these records");
  EXPECT_EQ(with({{"layers", "5-6"}}), "point: no entry of the plan takes the layers 5-6");
  EXPECT_EQ(with({{"prompts", "none"}}), "prompts: the run has no prompt set none");
  EXPECT_EQ(with({{"statistic", nullptr}, {"vector", "kind"}}),
            "point: no entry of the plan projects on kind");
}

TEST_F(RoomAlarmsTest, ALaterPlanWithoutItsEntryLetsItWait) {
  set({{"name", "high"},
       {"point", "MLP1"},
       {"statistic", "norm"},
       {"test", "above"},
       {"value", 5}});
  const json all = facts_.at("plan").at("entries");
  const auto set_plan = [&](const json& entries) {
    say(*trainer_, {{"event", "plan"},
                    {"params", {{"step", 2}, {"plan", {{"number", 3}, {"entries", entries}}}}}});
  };
  set_plan({all.at(1)});
  EXPECT_EQ(alarm().at("problem"), "no entry of the plan takes these records");
  set_plan(all);
  EXPECT_FALSE(alarm().contains("problem"));
  send_stats(3, 1, 6);
  step(3, 1.0);
  EXPECT_EQ(alarm().at("state"), "firing");
}

TEST_F(RoomAlarmsTest, TheTrainerPrintsThatItFired) {
  set(high_loss());
  trainer_->texts();
  step(7, 6.0);
  const auto texts = trainer_->texts();
  ASSERT_EQ(texts.size(), 1U);
  EXPECT_EQ(texts[0].at("event"), "alarm");
  EXPECT_EQ(texts[0].at("params").at("message"), "alarm high: loss is above 5 at step 7: 6");
}

class RoomAlarmPauseTest : public RoomAlarmsTest {
 protected:
  RoomAlarmPauseTest() : RoomAlarmsTest({.pause = 100s}) {
    json alarm = high_loss();
    alarm["pause"] = true;
    set(alarm);
    trainer_->texts();
    step(1, 6.0);
    EXPECT_EQ(requests(), std::vector<std::string>{"control.pause"});
    say(*trainer_, {{"event", "state"}, {"params", {{"phase", "paused"}, {"step", 1}}}});
  }
  std::vector<std::string> requests() {
    std::vector<std::string> methods;
    for (const json& text : trainer_->texts())
      if (text.contains("method")) methods.push_back(text["method"]);
    return methods;
  }
  void tick(std::chrono::seconds after) {
    now_ = start_ + after;
    room_.tick(now_);
  }
  /// The viewer keeps the lease and asks for nothing.
  void hold_until(std::chrono::seconds end) {
    for (auto after = now_ - start_ + 10s; after <= end; after += 10s) {
      tick(std::chrono::duration_cast<std::chrono::seconds>(after));
      ask(*viewer_, "ping");
    }
  }
};

TEST_F(RoomAlarmPauseTest, LastsLongerThanTheLease) {
  ask(*viewer_, "control.release");
  tick(31s);
  tick(62s);
  tick(99s);
  EXPECT_EQ(requests(), std::vector<std::string>());
  tick(101s);
  EXPECT_EQ(requests(), std::vector<std::string>{"control.continue"});
}

TEST_F(RoomAlarmPauseTest, EndsWhenSomebodyContinues) {
  ask(*viewer_, "control.continue");
  say(*trainer_, {{"event", "state"}, {"params", {{"phase", "training"}, {"step", 1}}}});
  EXPECT_EQ(requests(), std::vector<std::string>{"control.continue"});
  tick(101s);
  EXPECT_EQ(requests(), std::vector<std::string>()) << "it has ended";
}

TEST_F(RoomAlarmPauseTest, EndsWhileAHolderDoesNothing) {
  hold_until(90s);
  EXPECT_EQ(requests(), std::vector<std::string>());
  hold_until(110s);
  EXPECT_EQ(requests(), std::vector<std::string>{"control.continue"});
}

TEST_F(RoomAlarmPauseTest, BecomesThePauseOfAHolderWhoPauses) {
  ask(*viewer_, "control.pause");
  EXPECT_EQ(requests(), std::vector<std::string>{"control.pause"});
  hold_until(110s);
  EXPECT_EQ(requests(), std::vector<std::string>());
  ask(*viewer_, "control.release");
  EXPECT_EQ(requests(), std::vector<std::string>{"control.continue"});
}

TEST_F(RoomAlarmPauseTest, AStepIsThePauseOfTheHolder) {
  ask(*viewer_, "control.step");
  EXPECT_EQ(requests(), std::vector<std::string>{"control.step"});
  ask(*viewer_, "control.release");
  EXPECT_EQ(requests(), std::vector<std::string>{"control.continue"});
}

/// Two rooms one after the other, with one run directory.
class RoomAlarmsRestartTest : public testing::Test {
 protected:
  RoomAlarmsRestartTest() { std::filesystem::remove(path_); }
  AlarmOptions options(const std::string& run = "1") const {
    return {.path = path_, .run_id = run, .initial = {}, .pause = 100s};
  }
  const std::string path_ = testing::TempDir() + "/room_alarms_restart.json";
};

class RestartedRoom : public RoomAlarmsTest {
 public:
  explicit RestartedRoom(const AlarmOptions& options) : RoomAlarmsTest(options) {}
  void TestBody() override {}
  using RoomAlarmsTest::alarm;
  using RoomAlarmsTest::changes;
  using RoomAlarmsTest::set;
  using RoomAlarmsTest::step;
  using RoomAlarmsTest::trainer_;
  using RoomAlarmsTest::viewer_;
  void save() { room_.tick(now_ + 1s); }
  std::optional<std::chrono::milliseconds> say_paused_and_wait(std::chrono::seconds time) {
    say(*trainer_, {{"event", "state"}, {"params", {{"phase", "paused"}, {"step", 1}}}});
    ask(*viewer_, "control.release");
    trainer_->texts();
    room_.tick(now_ + time);
    const bool goes_on = !trainer_->texts().empty();
    return goes_on ? std::optional(std::chrono::milliseconds(time)) : std::nullopt;
  }
};

TEST_F(RoomAlarmsRestartTest, StateAndBaselineOutliveTheHub) {
  json first = {{"name", "first"}, {"scalar", "loss"}, {"test", "sigma"}, {"k", 3}, {"first", 3U}};
  {
    RestartedRoom room(options());
    room.set(high_loss());
    room.set(first);
    for (const double loss : {1.0, 2.0, 3.0, 6.0}) room.step(1, loss);
    room.save();
  }
  RestartedRoom room(options());
  EXPECT_EQ(room.alarm().at("state"), "firing");
  EXPECT_EQ(room.alarm().at("last").at("value"), 6.0);
  room.viewer_->texts();
  room.step(5, 7.0);
  EXPECT_EQ(RestartedRoom::changes(*room.viewer_), std::vector<std::string>()) << "still firing";
  room.step(6, 2.0);
  EXPECT_EQ(RestartedRoom::changes(*room.viewer_),
            (std::vector<std::string>{"cleared 6 0", "cleared 6 0"}))
      << "2 is the mean of the baseline";
}

TEST_F(RoomAlarmsRestartTest, ThePauseOfAnAlarmOutlivesTheHub) {
  json alarm = high_loss();
  alarm["pause"] = true;
  {
    RestartedRoom room(options());
    room.set(alarm);
    room.step(1, 6.0);
    room.save();
  }
  RestartedRoom room(options());
  EXPECT_FALSE(room.say_paused_and_wait(60s)) << "a pause without a lease ends after 30 s";
  EXPECT_TRUE(room.say_paused_and_wait(102s));
}

TEST_F(RoomAlarmsRestartTest, AnotherRunOfTheDirectoryBeginsWithItsOwnAlarms) {
  {
    RestartedRoom room(options());
    room.set(high_loss());
  }
  AlarmOptions other = options("2");
  other.initial = {{.name = "mine", .scalar = "loss", .test = "nonfinite"}};
  RestartedRoom room(other);
  EXPECT_EQ(room.alarm(), json());
  EXPECT_EQ(room.alarm("mine").at("state"), "waiting");
}

}  // namespace
}  // namespace tt::hub

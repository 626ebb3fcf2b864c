#include "src/hub/alarms/alarm_rule.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tensor_tracer/hub/alarms.h"

namespace tt::hub {
namespace {

using nlohmann::json;

// "where: message" of the refusal; empty if the alarm is right.
std::string refusal(json members) {
  members["name"] = "a";
  const auto alarm = protocol::parse_alarm(members);
  const base::Status checked = alarm.ok() ? check_alarm(alarm.value()) : alarm.error();
  return checked.ok() ? "" : checked.error().where + ": " + checked.error().message;
}

TEST(AlarmRule, TakesEveryTest) {
  for (const json& test : json::parse(R"([{"test": "above", "value": 5},
       {"test": "below", "value": -1.5, "consecutive": 3, "pause": true},
       {"test": "rising", "value": 0.1, "window": 20}, {"test": "falling", "value": 0, "window": 2},
       {"test": "sigma", "k": 6, "window": 100}, {"test": "sigma", "k": 6, "first": 50, "side": "above"},
       {"test": "range", "low": 0, "high": 0}, {"test": "nonfinite"}])")) {
    json scalar = test;
    scalar["scalar"] = "loss";
    EXPECT_EQ(refusal(scalar), "");
    json statistic = test;
    statistic.update({{"point", "MLP1"}, {"statistic", "rms"}, {"layers", "1-4,8"}});
    EXPECT_EQ(refusal(statistic), "");
    json vector = test;
    vector.update({{"point", "MLP1"}, {"vector", "evil"}, {"over", "last"}, {"prompts", "probes"}});
    EXPECT_EQ(refusal(vector), "");
  }
}

TEST(AlarmRule, MeansAndBaselinesBelongToProjectionsOfPrompts) {
  const json good = {{"point", "MLP1"},           {"vector", "evil"}, {"prompts", "probes"},
                     {"baseline", true},          {"test", "above"},  {"value", 5},
                     {"mean_over", "last-prompt"}};
  const auto with = [&](const json& changes) {
    json members = good;
    members.merge_patch(changes);
    return refusal(members);
  };
  EXPECT_EQ(with(json::object()), "");
  EXPECT_EQ(with({{"baseline", nullptr}}), "");
  EXPECT_EQ(with({{"test", "sigma"}, {"value", nullptr}, {"k", 1}}), "");
  EXPECT_EQ(with({{"test", "sigma"}, {"value", nullptr}, {"k", 1}, {"window", 5U}}),
            "window: the test sigma has one of window, first and baseline");
  EXPECT_EQ(with({{"mean_over", "answer"}}),
            "mean_over: must be one of prompt, last-prompt, response");
  EXPECT_EQ(with({{"mean_over", nullptr}}),
            "baseline: only projections with mean_over have a baseline");
  EXPECT_EQ(with({{"prompts", nullptr}}), "mean_over: belongs to a projection of prompts");
  EXPECT_EQ(with({{"vector", nullptr}, {"statistic", "rms"}}),
            "mean_over: belongs to a projection of prompts");
  EXPECT_EQ(with({{"over", "last"}}), "over: the mean over all prompts is one number");
}

TEST(AlarmRule, NamesTheMemberThatIsWrong) {
  const json good = {{"scalar", "loss"}, {"test", "above"}, {"value", 5}};
  const auto with = [&](json changes) {
    json members = good;
    members.merge_patch(changes);
    return refusal(members);
  };
  EXPECT_EQ(with({{"scalar", nullptr}}), "scalar: an alarm has either scalar or point");
  EXPECT_EQ(with({{"point", "MLP1"}}), "scalar: an alarm has either scalar or point");
  EXPECT_EQ(with({{"statistic", "mean"}}), "statistic: belongs to an alarm with a point");
  EXPECT_EQ(with({{"value", nullptr}}), "value: the test above needs it");
  EXPECT_EQ(with({{"window", 5U}}), "window: the test above does not use it");
  EXPECT_EQ(with({{"value", "NaN"}}), "value: must be a number from -1e+300 to 1e+300");
  EXPECT_EQ(with({{"consecutive", 0U}}), "consecutive: must be a whole number from 1 to 1000");
  EXPECT_EQ(with({{"webhook", "http://x"}}), "webhook: this member is not known")
      << "never from a viewer";
  EXPECT_EQ(with({{"test", "sigma"}, {"value", nullptr}, {"k", 3}}),
            "window: the test sigma has one of window, first and baseline");
  EXPECT_EQ(with({{"test", "range"}, {"value", nullptr}, {"low", 2}, {"high", 1}}),
            "low: is above high");
  EXPECT_NE(with({{"scalar", "los"}}).find("must be one of loss, "), std::string::npos);
  EXPECT_NE(with({{"test", "abov"}}).find("must be one of above, "), std::string::npos);
}

TEST(AlarmRule, APointHasEitherStatisticOrVector) {
  const json good = {{"point", "MLP1"}, {"statistic", "rms"}, {"test", "nonfinite"}};
  const auto with = [&](json changes) {
    json members = good;
    members.merge_patch(changes);
    return refusal(members);
  };
  EXPECT_NE(with({{"vector", "evil"}}), "");
  EXPECT_NE(with({{"statistic", nullptr}}), "");
  EXPECT_EQ(with({{"over", "last"}}), "over: a stats record has one number for all lines");
  for (const char* member : {"column", "parameter"}) {
    EXPECT_EQ(with({{member, "3"}}),
              std::string(member) + ": belongs to an alarm with the statistic value");
  }
  EXPECT_EQ(with({{"statistic", "value"}, {"over", "largest"}, {"column", "3"}}), "");
  EXPECT_EQ(with({{"statistic", "loss"}, {"over", "last"}}), "");
  EXPECT_EQ(with({{"layers", "4-1"}}), "layers: must be a list of layers such as 1-4,8");
  EXPECT_EQ(with({{"phase", "eval"}, {"prompts", "p"}}), "phase: prompts have no phase");
}

TEST(AlarmRule, ANearWordIsProposed) {
  const auto checked = check_alarm({.name = "a", .scalar = "gradnorm", .test = "nonfinite"});
  ASSERT_FALSE(checked.ok());
  EXPECT_EQ(checked.error().remedy, "did you mean grad_norm?");
}

class AlarmFileTest : public testing::Test {
 protected:
  base::Result<std::vector<protocol::SetAlarm>> read(const std::string& text) {
    const std::string path = testing::TempDir() + "/alarms.json";
    std::ofstream(path) << text;
    return read_alarms(path);
  }
};

TEST_F(AlarmFileTest, HasAListOfAlarms) {
  const auto alarms = read(R"([{"name": "a", "scalar": "loss", "test": "nonfinite"},
                               {"name": "b", "scalar": "lr", "test": "above", "value": 1}])");
  ASSERT_TRUE(alarms.ok());
  EXPECT_EQ(alarms.value().at(1).name, "b");
}

TEST_F(AlarmFileTest, TheErrorNamesFileAndAlarm) {
  const auto message = [&](const std::string& text) {
    const auto alarms = read(text);
    return alarms.ok() ? "" : alarms.error().where + " " + alarms.error().message;
  };
  EXPECT_NE(message(R"([{"name": "a", "scalar": "loss", "test": "nonfinite"},
                        {"name": "b", "scalar": "lr", "test": "above"}])")
                .find("alarms.json, alarm 2: value: the test above needs it"),
            std::string::npos);
  EXPECT_NE(message("{}").find("is not a list of alarms"), std::string::npos);
  EXPECT_NE(message("[").find("alarms.json: "), std::string::npos);
  EXPECT_EQ(read_alarms("/no/such/file").error().where, "--alarms");
}

TEST(Webhook, IsPlainHttp) {
  const auto parsed = parse_webhook("http://127.0.0.1:9000/a/b?c=d").value();
  EXPECT_EQ(parsed.host + " " + parsed.port + " " + parsed.target, "127.0.0.1 9000 /a/b?c=d");
  const auto bare = parse_webhook("http://example.org").value();
  EXPECT_EQ(bare.host + " " + bare.port + " " + bare.target, "example.org 80 /");
  EXPECT_EQ(parse_webhook("http://[::1]:80").value().host, "::1");
}

TEST(Webhook, AnotherAddressIsRefusedWithTheWayOut) {
  EXPECT_NE(parse_webhook("https://example.org/x").error().remedy.find("--alarm-command with curl"),
            std::string::npos);
  for (const char* url : {"", "example.org", "http://", "http://a b/", "http://x\r\nEvil: y/",
                          "ftp://x", "http://user@host/"}) {
    const auto parsed = parse_webhook(url);
    ASSERT_FALSE(parsed.ok()) << url;
    EXPECT_EQ(parsed.error().where, "--alarm-webhook");
  }
}

TEST(AlarmCommand, IsAPathOrANameInPath) {
  EXPECT_EQ(find_program("/bin/sh").value(), "/bin/sh");
  EXPECT_TRUE(find_program("sh").value().ends_with("/sh"));
  EXPECT_EQ(find_program("no-such-program").error().where, "--alarm-command");
  const std::string plain = testing::TempDir() + "/plain_file";
  std::ofstream(plain) << "text";
  EXPECT_FALSE(find_program(plain).ok());
  EXPECT_FALSE(find_program("/etc").ok());
}

}  // namespace
}  // namespace tt::hub

#include "tensor_tracer/protocol/request.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tensor_tracer/protocol/message.h"

namespace tt::protocol {
namespace {

using nlohmann::json;

template <typename Request>
Request read(const char* method, const json& params) {
  return std::get<Request>(parse_trainer_request(method, params).value());
}

TEST(Request, HasItsMembers) {
  const auto apply = read<ApplyProgram>("intervention.apply", {{"name", "steer"},
                                                               {"program", "x"},
                                                               {"parameters", {{"alpha", 2.0}}},
                                                               {"ttl", 500U},
                                                               {"keep", true}});
  EXPECT_EQ(apply.name, "steer");
  EXPECT_EQ(apply.program, "x");
  EXPECT_EQ(apply.parameters, json({{"alpha", 2.0}}));
  EXPECT_EQ(apply.ttl, 500U);
  EXPECT_EQ(apply.keep, true);
  EXPECT_EQ(read<SetReplaySpeed>("replay.speed", {{"speed", 2}}).speed, 2.0);
  EXPECT_EQ(read<SeekReplay>("replay.seek", {{"step", 7U}}).step, 7U);
}

TEST(Request, MayLackOptionalMembers) {
  const auto apply =
      read<ApplyProgram>("intervention.apply", {{"name", "steer"}, {"program", nullptr}});
  EXPECT_TRUE(apply.program.is_null()) << "its handler says so";
  EXPECT_FALSE(apply.parameters || apply.ttl || apply.keep);
  EXPECT_FALSE(read<StepRun>("control.step", json::object()).count);
  EXPECT_FALSE(read<RemovePrograms>("intervention.remove", json::object()).name);
}

TEST(Request, IsWrittenAsItWasRead) {
  const std::vector<std::pair<std::string, json>> all = {
      {"control.pause", json::object()},
      {"control.continue", json::object()},
      {"control.stop", json::object()},
      {"control.step", json::object()},
      {"control.step", {{"count", 1'000'000U}}},
      {"plan.set", {{"plan", {{"entries", json::array()}}}}},
      {"plan.check", {{"plan", nullptr}}},
      {"intervention.check", {{"program", {{"nodes", json::array()}}}}},
      {"intervention.apply", {{"name", "a"}, {"program", "x"}}},
      {"intervention.apply", {{"name", "a"}, {"program", "x"}, {"keep", false}, {"ttl", 1U}}},
      {"intervention.set", {{"name", "a"}, {"parameter", "p"}, {"value", 2}}},
      {"intervention.remove", {{"name", "a"}}},
      {"intervention.revert", json::object()},
      {"intervention.preview", {{"program", "x"}, {"parameters", json::object()}}},
      {"prompt.run", {{"text", ""}}},
      {"prompt.run", {{"text", "once"}, {"plan", {{"entries", json::array()}}}}},
      {"prompt.keep", {{"name", "a"}, {"text", "once"}}},
      {"prompt.remove", {{"name", "a"}}},
      {"replay.seek", {{"step", 0U}}},
      {"replay.speed", {{"speed", 0.5}}}};
  for (const auto& [method, params] : all) {
    const auto request = parse_trainer_request(method, params);
    ASSERT_TRUE(request.ok()) << method << to_string(request.error());
    EXPECT_EQ(row_of(request.value()).method, method);
    EXPECT_EQ(params_of(request.value()), params) << method;
    EXPECT_EQ(encode_request(7, request.value()), encode_request(7, method, params));
  }
}

// "where: message" of the refusal.
std::string refusal(const char* method, const json& params) {
  const auto request = parse_viewer_request(method, params);
  return request.ok() ? "" : request.error().where + ": " + request.error().message;
}

TEST(Request, AWrongMemberIsNamed) {
  const json set = {{"name", "a"}, {"parameter", "p"}, {"value", 2}};
  const auto with = [&](const char* member, const json& value) {
    json params = set;
    params[member] = value;
    return refusal("intervention.set", params);
  };
  EXPECT_EQ(refusal("intervention.set", set), "");
  EXPECT_EQ(with("vlaue", 1), "vlaue: this member is not known");
  EXPECT_EQ(with("name", ""), "name: must be a text of 1 to 64 bytes");
  EXPECT_EQ(with("name", std::string(65, 'x')), "name: must be a text of 1 to 64 bytes");
  EXPECT_EQ(with("name", std::string(64, 'x')), "");
  EXPECT_EQ(with("name", nullptr), "name: must be a text of 1 to 64 bytes");
  EXPECT_EQ(refusal("intervention.set", {{"name", "a"}, {"value", 2}}), "parameter: is missing");
  EXPECT_EQ(refusal("plan.set", json::object()), "plan: is missing");
  for (const json& count : {json(0U), json(1'000'001U), json(-1), json(1.5), json("1")}) {
    EXPECT_EQ(refusal("control.step", {{"count", count}}),
              "count: must be a whole number from 1 to 1000000")
        << count;
  }
  for (const json& speed : {json(0.09), json(100.1), json("fast"), json()}) {
    EXPECT_EQ(refusal("replay.speed", {{"speed", speed}}),
              "speed: must be a number from 0.1 to 100.0")
        << speed;
  }
  EXPECT_EQ(refusal("control.claim", {{"take_over", 1}}), "take_over: must be true or false");
  EXPECT_EQ(refusal("control.pause", {{"", 1}}), ": this member is not known");
}

TEST(Request, OnlyItsSenderKnowsIt) {
  EXPECT_EQ(refusal("run.shell", json::object()), "run.shell: there is no such request here");
  EXPECT_EQ(refusal("intervention.revert", json::object()),
            "intervention.revert: there is no such request here");
  EXPECT_TRUE(parse_trainer_request("intervention.revert", json::object()).ok());
  for (const char* method : {"ping", "subscribe", "control.claim", "control.release"}) {
    EXPECT_TRUE(parse_viewer_request(method, json::object()).ok()) << method;
    EXPECT_EQ(parse_trainer_request(method, json::object()).error().code, "unknown_method");
  }
  EXPECT_EQ(parse_trainer_request(std::string(100, 'x'), {}).error().where.size(), 64U);
}

}  // namespace
}  // namespace tt::protocol

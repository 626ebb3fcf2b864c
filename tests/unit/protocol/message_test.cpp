#include "tensor_tracer/protocol/message.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <string>

namespace tt::protocol {
namespace {

using nlohmann::json;

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(ParseJson, DepthLimitIsExact) {
  EXPECT_TRUE(parse_json(nested(32)).ok());
  ASSERT_FALSE(parse_json(nested(33)).ok());
  EXPECT_EQ(parse_json(nested(33)).error().code, "too_large");
}

TEST(ParseJson, AMillionBracketsEndAtTheLimit) {
  const TextLimits limits{.bytes = 4'000'000, .depth = 32};
  EXPECT_EQ(parse_json(std::string(1'000'000, '['), limits).error().code, "too_large");
  EXPECT_EQ(parse_json(nested(1'000'000), limits).error().code, "too_large");
}

TEST(ParseJson, SizeLimitIsExact) {
  const std::string fits = '"' + std::string(64 * 1024 - 2, 'x') + '"';
  EXPECT_TRUE(parse_json(fits).ok());
  EXPECT_EQ(parse_json(fits + " ").error().code, "too_large");
}

TEST(ParseJson, WhatIsNotJsonIsRefused) {
  for (const char* text : {"", "{", "nul", "{\"a\":1,}", "NaN", "[1] 2", "\"\xff\"", "1e999"}) {
    ASSERT_FALSE(parse_json(text).ok()) << text;
    EXPECT_EQ(parse_json(text).error().code, "invalid_request") << text;
  }
}

TEST(ParseMessage, KnowsTheThreeForms) {
  const Message request = parse_message(R"({"id": 7, "method": "ping"})");
  ASSERT_TRUE(std::holds_alternative<Request>(request));
  EXPECT_EQ(std::get<Request>(request).id, 7U);
  EXPECT_EQ(std::get<Request>(request).method, "ping");
  EXPECT_EQ(std::get<Request>(request).params, json::object());

  const Message answer = parse_message(R"({"id": 7, "result": {"step": 3}, "later": 1})");
  ASSERT_TRUE(std::holds_alternative<Answer>(answer));
  EXPECT_EQ(std::get<json>(std::get<Answer>(answer).outcome).at("step"), 3);

  const Message refused = parse_message(R"({"id": 0, "error": {"code": "busy"}})");
  ASSERT_TRUE(std::holds_alternative<Answer>(refused));
  EXPECT_EQ(std::get<base::Error>(std::get<Answer>(refused).outcome).code, "busy");

  const Message event = parse_message(R"({"event": "step", "params": {"step": 1}, "later": 1})");
  ASSERT_TRUE(std::holds_alternative<Notification>(event));
  EXPECT_EQ(std::get<Notification>(event).event, "step");
}

TEST(ParseMessage, MalformedKeepsTheIdThatCanBeRead) {
  struct Case {
    const char* text;
    std::uint64_t id;
    const char* where;
  };
  const Case cases[] = {
      {"[1]", 0, ""},
      {R"({"id": 4})", 4, ""},
      {R"({"method": "ping"})", 0, "id"},
      {R"({"id": 0, "method": "ping"})", 0, "id"},
      {R"({"id": -1, "method": "ping"})", 0, "id"},
      {R"({"id": 1.5, "method": "ping"})", 0, "id"},
      {R"({"id": "1", "method": "ping"})", 0, "id"},
      {R"({"id": 9007199254740992, "method": "ping"})", 0, "id"},
      {R"({"id": 5, "method": 5})", 5, "method"},
      {R"({"id": 5, "method": "ping", "params": []})", 5, "params"},
      {R"({"id": 5, "method": "ping", "extra": 1})", 5, "extra"},
      {R"({"event": 1})", 0, "event"},
      {R"({"event": "step", "params": 1})", 0, "params"},
      {R"({"result": {}})", 0, "id"},
      {R"({"id": 6, "error": "text"})", 6, "error"},
  };
  for (const Case& c : cases) {
    const Message message = parse_message(c.text);
    ASSERT_TRUE(std::holds_alternative<Malformed>(message)) << c.text;
    EXPECT_EQ(std::get<Malformed>(message).id, c.id) << c.text;
    EXPECT_EQ(std::get<Malformed>(message).error.where, c.where) << c.text;
    EXPECT_EQ(std::get<Malformed>(message).error.code, "invalid_request") << c.text;
  }
}

TEST(Encode, NonFiniteNumbersBecomeTheAgreedTexts) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::string text =
      encode_notification("step", {{"loss", std::nan("")}, {"rows", {inf, -inf, 1.5}}});
  EXPECT_EQ(json::parse(text).at("params"),
            json::parse(R"({"loss": "NaN", "rows": ["Infinity", "-Infinity", 1.5]})"));
}

TEST(Encode, BytesThatAreNotUtf8DoNotThrow) {
  EXPECT_TRUE(parse_json(encode_result(1, {{"name", "\xff\xfe"}})).ok());
}

TEST(Encode, RoundTrips) {
  const base::Error error{"busy", "held by Ada", "control", "take over"};
  const Message message = parse_message(encode_error(9, error));
  const auto& outcome = std::get<base::Error>(std::get<Answer>(message).outcome);
  EXPECT_EQ(outcome.code + outcome.message + outcome.where + outcome.remedy,
            "busyheld by Adacontroltake over");

  const Message request = parse_message(encode_request(3, "control.step", {{"count", 2}}));
  EXPECT_EQ(std::get<Request>(request).params.at("count"), 2);
}

TEST(CheckMembers, NamesTheStranger) {
  EXPECT_TRUE(check_members({{"a", 1}}, {"a", "b"}).ok());
  EXPECT_EQ(check_members({{"c", 1}}, {"a", "b"}).error().where, "c");
  EXPECT_FALSE(check_members(json::array(), {"a"}).ok());
}

// The members of a golden message that carry its meaning, as parse_message finds them.
json described(const Message& message) {
  if (const auto* request = std::get_if<Request>(&message)) {
    return {{"form", "request"},
            {"id", request->id},
            {"method", request->method},
            {"params", request->params}};
  }
  if (const auto* notification = std::get_if<Notification>(&message)) {
    return {
        {"form", "notification"}, {"event", notification->event}, {"params", notification->params}};
  }
  if (const auto* malformed = std::get_if<Malformed>(&message))
    return {{"form", "malformed"}, {"id", malformed->id}};
  const auto& answer = std::get<Answer>(message);
  if (const auto* result = std::get_if<json>(&answer.outcome))
    return {{"form", "result"}, {"id", answer.id}, {"result", *result}};
  const auto& error = std::get<base::Error>(answer.outcome);
  return {{"form", "error"},
          {"id", answer.id},
          {"error",
           {{"code", error.code},
            {"message", error.message},
            {"where", error.where},
            {"remedy", error.remedy}}}};
}

// The same message written again.
std::string encoded(const Message& message) {
  if (const auto* request = std::get_if<Request>(&message))
    return encode_request(request->id, request->method, request->params);
  if (const auto* notification = std::get_if<Notification>(&message))
    return encode_notification(notification->event, notification->params);
  const auto& answer = std::get<Answer>(message);
  if (const auto* result = std::get_if<json>(&answer.outcome))
    return encode_result(answer.id, *result);
  return encode_error(answer.id, std::get<base::Error>(answer.outcome));
}

// The golden file is made by tests/golden/make_golden.py, which knows docs/protocol.md only.
TEST(MessageGolden, Version1IsReadAndWritten) {
  std::ifstream file(std::string(TT_GOLDEN_DIR) + "/messages_v1.json");
  const json golden = json::parse(file);
  for (json expected : golden.at("messages")) {
    const std::string text = expected.at("text");
    expected.erase("text");
    if (expected.contains("params") && expected.at("params").is_null())
      expected.at("params") = json::object();
    const Message message = parse_message(text);
    EXPECT_EQ(described(message), expected) << text;
    if (std::holds_alternative<Malformed>(message)) continue;
    EXPECT_EQ(described(parse_message(encoded(message))), expected) << text;
  }
  EXPECT_GT(golden.at("messages").size(), 75U);
}

}  // namespace
}  // namespace tt::protocol

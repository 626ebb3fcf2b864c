#include "src/link/channel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "tensor_tracer/protocol/record.h"

namespace tt::link {
namespace {

using namespace std::chrono_literals;
using Clock = Channel::Clock;

// Two records of 128 bytes each.
std::string two_records() {
  std::string out;
  protocol::RecordHeader header;
  header.dtype = protocol::Dtype::kU8;
  header.ndim = 1;
  header.shape = {0, 1, 1, 1};
  protocol::append_record(out, header, {});
  protocol::append_record(out, header, {});
  return out;
}

trace::Request request(std::uint64_t id) { return {.id = id, .body = protocol::PauseRun{}}; }

std::string no_answer(std::uint64_t) {
  ADD_FAILURE() << "encoded an answer that nobody waits for";
  return {};
}

TEST(Channel, DropsTheOldestRecordsFirstAndCountsEach) {
  Channel channel(600, 1s);
  channel.push_text("event");
  for (int i = 0; i < 4; ++i) channel.push_records(two_records());  // 256 bytes
  EXPECT_EQ(channel.dropped(), 4U);
  const auto told = channel.take();
  ASSERT_TRUE(told && told->text);
  EXPECT_EQ(nlohmann::json::parse(told->bytes).at("params"),
            nlohmann::json::parse(R"({"records": 4, "where": "trainer"})"));
  EXPECT_EQ(channel.take()->bytes, "event");
  EXPECT_EQ(channel.take()->bytes, two_records());
  EXPECT_EQ(channel.take()->bytes, two_records());
  EXPECT_FALSE(channel.take().has_value());
}

TEST(Channel, TextsGoBeforeRecords) {
  Channel channel(6000, 1s);
  channel.push_records(two_records());
  channel.push_text("event");
  EXPECT_EQ(channel.take()->bytes, "event");
  EXPECT_EQ(channel.take()->bytes, two_records());
}

TEST(Channel, AnswersEndWithTheConnectionThatAskedForThem) {
  Channel channel(600, 1s);
  channel.expect_checks();
  channel.set_connected();
  const auto answer = [](std::uint64_t id) { return "answer " + std::to_string(id); };
  for (const std::uint64_t id : {7, 8}) {
    channel.deliver(request(id));
    channel.push_answer(channel.poll(Clock::now()).at(0).id, answer);
  }
  for (int i = 0; i < 9; ++i) channel.deliver({.id = 9, .body = protocol::CheckPlan{}});
  channel.push_text("event");
  auto in_flight = channel.take();
  EXPECT_EQ(in_flight->bytes, "answer 7");
  channel.set_lost(Clock::now());
  channel.give_back(std::move(*in_flight));
  channel.set_connected();
  EXPECT_EQ(channel.waiting_bytes(), 5U);
  EXPECT_EQ(channel.take()->bytes, "event");
  EXPECT_FALSE(channel.take().has_value());
}

TEST(Channel, EventsThatAreDataAreDroppedAsRecordsAre) {
  Channel channel(600, 1s);
  channel.push_text("state");
  channel.push_data(std::string(250, 'a'));
  channel.push_records(two_records());
  channel.push_data(std::string(250, 'b'));
  channel.push_records(two_records());
  const auto told = channel.take();
  EXPECT_EQ(nlohmann::json::parse(told->bytes).at("params"),
            nlohmann::json::parse(R"({"records": 2, "where": "trainer", "events": 1})"));
  EXPECT_EQ(channel.take()->bytes, "state");
  const auto saved = channel.take();
  EXPECT_TRUE(saved->text);
  EXPECT_EQ(saved->bytes.front(), 'b');
  channel.give_back(*saved);
  EXPECT_EQ(channel.take()->bytes, saved->bytes);
  EXPECT_EQ(channel.take()->bytes, two_records());
  EXPECT_FALSE(channel.take().has_value());
}

TEST(Channel, EventsGoOnlyWhenNoRecordIsLeft) {
  Channel channel(600, 1s);
  channel.push_records(two_records());
  channel.push_text(std::string(500, 'a'));
  EXPECT_EQ(channel.dropped(), 2U);
  channel.push_text(std::string(500, 'b'));
  EXPECT_EQ(nlohmann::json::parse(channel.take()->bytes).at("params"),
            nlohmann::json::parse(R"({"records": 2, "where": "trainer", "events": 1})"));
  EXPECT_EQ(channel.take()->bytes.front(), 'b');
  EXPECT_FALSE(channel.take().has_value());
}

TEST(Channel, WhatCouldNotBeWrittenComesFirstAgain) {
  Channel channel(600, 1s);
  channel.push_text("a");
  channel.push_text("b");
  channel.give_back(*channel.take());
  EXPECT_EQ(channel.take()->bytes, "a");
  channel.written();
  EXPECT_EQ(channel.take()->bytes, "b");
}

TEST(Channel, AnswersGoToTheHubsIdAndOnlyOnce) {
  Channel channel(600, 1s);
  channel.set_connected();
  channel.deliver(request(77));
  const auto requests = channel.poll(Clock::now());
  ASSERT_EQ(requests.size(), 1U);
  channel.push_answer(requests[0].id, [](std::uint64_t id) { return std::to_string(id); });
  channel.push_answer(requests[0].id, no_answer);
  EXPECT_EQ(channel.take()->bytes, "77");
  EXPECT_TRUE(channel.poll(Clock::now()).empty());
}

TEST(Channel, RequestsOfALostConnectionAreForgotten) {
  Channel channel(600, 1s);
  channel.set_connected();
  channel.deliver(request(1));
  const auto taken = channel.poll(Clock::now());
  channel.deliver(request(2));
  channel.set_demand(3, false, {});
  EXPECT_TRUE(channel.has_viewer());
  channel.set_lost(Clock::now());
  EXPECT_FALSE(channel.has_viewer());
  channel.set_connected();
  EXPECT_TRUE(channel.poll(Clock::now()).empty());
  channel.push_answer(taken.at(0).id, no_answer);
}

TEST(Channel, TheDemandLastsWhileContactIsLostOnlyIfTheHubItselfTakesRecords) {
  for (const bool hub_takes : {false, true}) {
    Channel channel(600, 1s);
    EXPECT_EQ(channel.demand().in(1), 0U);
    channel.set_connected();
    channel.set_demand(1, hub_takes, {.entries = 0b101, .plan = 3});
    EXPECT_EQ(channel.demand().in(3), 0b101U);
    EXPECT_EQ(channel.demand().in(4), trace::Demand::kAll) << "the hub has not seen this plan";
    channel.set_lost(Clock::now());
    EXPECT_EQ(channel.demand().in(3), hub_takes ? 0b101U : 0U);
    channel.set_demand(0, hub_takes, {});
    EXPECT_EQ(channel.demand().in(3), hub_takes ? trace::Demand::kAll : 0U);
  }
}

TEST(Channel, LetsGoOnceWhenContactIsLostForTooLong) {
  Channel channel(600, 10s);
  channel.set_connected();
  const Clock::time_point lost = Clock::now() + 5s;
  EXPECT_TRUE(channel.poll(lost + 100s).empty()) << "while connected never";
  channel.set_lost(lost);
  EXPECT_TRUE(channel.poll(lost + 10s - 1ms).empty());
  const auto requests = channel.poll(lost + 10s);
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(requests[0].id, 0U);
  EXPECT_TRUE(std::holds_alternative<protocol::RevertPrograms>(requests[0].body));
  EXPECT_EQ(requests[1].id, 0U);
  EXPECT_TRUE(std::holds_alternative<protocol::ContinueRun>(requests[1].body));
  EXPECT_TRUE(channel.poll(lost + 100s).empty());
  channel.set_lost(lost + 100s);
  EXPECT_TRUE(channel.poll(lost + 200s).empty()) << "a failed attempt to connect is no new loss";
  channel.set_connected();
  channel.set_lost(lost + 300s);
  EXPECT_EQ(channel.poll(lost + 310s).size(), 2U);
}

TEST(Channel, WaitEndsWithARequestWithTheTimeAndWithTheLossOfContact) {
  Channel channel(600, 200ms);
  channel.set_connected();
  const auto start = Clock::now();
  channel.wait(start + 50ms);
  EXPECT_GE(Clock::now() - start, 50ms);
  {
    const std::jthread hub([&] {
      std::this_thread::sleep_for(50ms);
      channel.deliver(request(1));
    });
    channel.wait(start + 10s);
    EXPECT_EQ(channel.poll(Clock::now()).size(), 1U);
  }
  {
    const std::jthread hub([&] {
      std::this_thread::sleep_for(50ms);
      channel.set_lost(Clock::now());
    });
    channel.wait(start + 10s);
    EXPECT_EQ(channel.poll(Clock::now()).size(), 2U);
  }
  EXPECT_LT(Clock::now() - start, 5s);
}

TEST(Channel, WaitsUntilEverythingIsWritten) {
  Channel channel(600, 1s);
  channel.push_text("a");
  const auto start = Clock::now();
  EXPECT_FALSE(channel.wait_until_written(50ms, 10s));
  EXPECT_GE(Clock::now() - start, 50ms);
  channel.take();
  const std::jthread writer([&] {
    std::this_thread::sleep_for(20ms);
    channel.written();
  });
  EXPECT_TRUE(channel.wait_until_written(10s, 10s));
  EXPECT_LT(Clock::now() - start, 5s);
}

TEST(Channel, WaitsForAHubThatIsSlowButNotLongerThanTheLongest) {
  constexpr int kMessages = 12;
  Channel channel(600, 1s);
  channel.push_text("a");
  std::atomic<bool> goes_on = true;
  const std::jthread writer([&] {
    for (int left = kMessages; left > 0; left -= goes_on ? 0 : 1) {
      std::this_thread::sleep_for(50ms);
      if (left > 1) channel.push_text("a");
      channel.take();
      channel.written();
    }
  });
  EXPECT_FALSE(channel.wait_until_written(5s, 100ms));
  goes_on = false;
  EXPECT_TRUE(channel.wait_until_written(500ms, 30s)) << "that is less than all of it takes";
}

trace::Request check(std::uint64_t id, protocol::TrainerRequest body = protocol::CheckPlan{}) {
  return {.id = id, .body = std::move(body)};
}

std::string_view method_of(const std::optional<trace::Request>& taken) {
  return taken ? protocol::row_of(taken->body).method : "";
}

TEST(Channel, WhatOnlyAsksGoesToTheCheckerIfThereIsOne) {
  Channel channel(600, 1s);
  channel.set_connected();
  channel.deliver(check(1));
  EXPECT_EQ(channel.poll(Clock::now()).size(), 1U);
  channel.expect_checks();
  channel.deliver(check(2));
  channel.deliver(request(3));
  channel.deliver(check(4, protocol::CheckProgram{}));
  EXPECT_EQ(method_of(channel.take_check()), "plan.check");
  EXPECT_EQ(method_of(channel.take_check()), "intervention.check");
  EXPECT_EQ(method_of(channel.poll(Clock::now()).at(0)), "control.pause");
}

TEST(Channel, AFewChecksWaitAndMoreAreBusy) {
  Channel channel(10'000, 1s);
  channel.set_connected();
  channel.expect_checks();
  for (std::uint64_t id = 1; id <= 9; ++id) channel.deliver(check(id));
  const auto refused = nlohmann::json::parse(channel.take()->bytes);
  EXPECT_EQ(refused.at("id"), 9);
  EXPECT_EQ(refused.at("error").at("code"), "busy");
  EXPECT_FALSE(channel.take().has_value());
}

TEST(Channel, TheCheckerEndsWhileItWaits) {
  Channel channel(600, 1s);
  channel.expect_checks();
  std::thread checker([&] { EXPECT_FALSE(channel.take_check().has_value()); });
  std::this_thread::sleep_for(20ms);
  channel.end_checks();
  checker.join();
}

}  // namespace
}  // namespace tt::link

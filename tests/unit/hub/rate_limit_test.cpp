#include "src/hub/room/rate_limit.h"

#include <gtest/gtest.h>

namespace tt::hub {
namespace {

using namespace std::chrono_literals;
using Verdict = MessageGate::Verdict;

constexpr MessageLimit kLimit{.per_second = 10, .burst = 20, .refusals = 5};

int count_passed(MessageGate& gate, MessageGate::Clock::time_point now, int messages) {
  int passed = 0;
  for (int i = 0; i < messages; ++i) passed += gate.admit(now) == Verdict::kPass ? 1 : 0;
  return passed;
}

TEST(MessageGate, PassesABurstAndThenTheSustainedRate) {
  MessageGate gate({.per_second = 10, .burst = 20, .refusals = 1000});
  const auto start = MessageGate::Clock::now();
  EXPECT_EQ(count_passed(gate, start, 50), 20);
  EXPECT_EQ(count_passed(gate, start + 1s, 50), 10);
  EXPECT_EQ(count_passed(gate, start + 1500ms, 50), 5);
  EXPECT_EQ(count_passed(gate, start + 60s, 50), 20) << "no more than a burst is saved up";
}

TEST(MessageGate, NeverRefusesTheSustainedRate) {
  MessageGate gate(kLimit);
  auto now = MessageGate::Clock::now();
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(gate.admit(now), Verdict::kPass) << i;
    now += 100ms;
  }
}

TEST(MessageGate, ClosesAClientThatGoesOnAndForgivesOneThatRests) {
  MessageGate gate(kLimit);
  const auto start = MessageGate::Clock::now();
  count_passed(gate, start, 20);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(gate.admit(start), Verdict::kRefuse);
  EXPECT_EQ(gate.admit(start + 100ms), Verdict::kPass);
  EXPECT_EQ(gate.admit(start + 100ms), Verdict::kClose) << "one that passes forgives nothing";
  count_passed(gate, start + 10s, 20);
  EXPECT_EQ(gate.admit(start + 10s), Verdict::kRefuse) << "the bucket was full";
}

TEST(FailureWindow, TenAMinute) {
  FailureWindow window;
  const auto start = FailureWindow::Clock::now();
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(window.too_many(start + std::chrono::seconds(i)));
  EXPECT_TRUE(window.too_many(start + 30s));
  EXPECT_EQ(window.retry_after(start + 30s), 30s);
  EXPECT_EQ(window.retry_after(start + 30500ms), 30s) << "whole seconds, rounded up";
  EXPECT_FALSE(window.too_many(start + 60s));
  EXPECT_TRUE(window.too_many(start + 60s));
  EXPECT_FALSE(window.too_many(start + 61s));
}

}  // namespace
}  // namespace tt::hub

#include "src/hub/alarms/alarm_calls.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

/// Commands; the webhook is tested with an HTTP server in tests/e2e/test_hub_alarms.py.
namespace tt::hub {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class AlarmCallsTest : public testing::Test {
 protected:
  AlarmCallsTest() { std::filesystem::create_directories(folder_); }
  ~AlarmCallsTest() override { std::filesystem::remove_all(folder_); }
  AlarmCallsTest(const AlarmCallsTest&) = delete;
  AlarmCallsTest& operator=(const AlarmCallsTest&) = delete;

  std::string content(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(folder_ + "/" + name).rdbuf();
    return text.str();
  }

  const std::string folder_ =
      testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(AlarmCallsTest, TheCommandGetsTheMessageOnItsInputAndItsArgumentsAsTheyAre) {
  const std::string script = "cat >> \"$0\"; echo \"$1\"; echo >&2 wrong";
  {
    AlarmCalls calls({}, {"/bin/sh", "-c", script, folder_ + "/in", "$(touch x); *"},
                     folder_ + "/log");
    calls.push("{\"a\": 1}");
    calls.push("{\"a\": 2}");
    while (content("log").size() < 2 * std::string("$(touch x); *\nwrong\n").size())
      std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(content("in"), "{\"a\": 1}\n{\"a\": 2}\n") << "one after the other";
  EXPECT_EQ(content("log"), "$(touch x); *\nwrong\n$(touch x); *\nwrong\n");
}

TEST_F(AlarmCallsTest, AFailureIsCounted) {
  AlarmCalls calls({}, {"/bin/false"}, folder_ + "/log");
  calls.push("x");
  while (calls.failed() == 0) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(calls.failed(), 1U);
}

TEST_F(AlarmCallsTest, TheEndOfTheHubEndsACommandThatHangsWithItsChildren) {
  const auto begin = Clock::now();
  const std::string script = "sleep 1000 & echo $! > \"$0\"; wait";
  {
    AlarmCalls calls({}, {"/bin/sh", "-c", script, folder_ + "/pid"}, folder_ + "/log");
    calls.push("x");
    while (content("pid").empty()) std::this_thread::sleep_for(1ms);
  }
  EXPECT_LT(Clock::now() - begin, 9s) << "its own limit is 10 s";
  const std::string status = "/proc/" + std::to_string(std::stoi(content("pid"))) + "/status";
  const auto is_gone = [&] {
    std::stringstream text;
    text << std::ifstream(status).rdbuf();
    return text.str().empty() || text.str().find("State:\tZ") != std::string::npos;
  };
  while (!is_gone()) std::this_thread::sleep_for(1ms);
}

TEST_F(AlarmCallsTest, TooManyMessagesAreDroppedAndCounted) {
  AlarmCalls calls({}, {"/bin/sleep", "1000"}, folder_ + "/log");
  for (std::size_t i = 0; i < AlarmCalls::kMaxWaiting + 10; ++i) calls.push("x");
  EXPECT_GE(calls.failed(), 9U);
}

}  // namespace
}  // namespace tt::hub

#include "tensor_tracer/hub/event_log.h"

#include <gtest/gtest.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

namespace tt::hub {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

class EventLogTest : public testing::Test {
 protected:
  /// One event at `seconds` after the first.
  void say(const std::string& text, double seconds,
           spdlog::level::level_enum level = spdlog::level::info) {
    const auto time = start_ + std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::duration<double>(seconds));
    sink_->log({time, {}, "hub", level, text});
  }
  /// The same from a new thread: the thread of the test may know of a run from a test before.
  void say_in_new_thread(const std::string& text,
                         spdlog::level::level_enum level = spdlog::level::info) {
    std::thread([&] { say(text, 0, level); }).join();
  }
  std::vector<json> lines() {
    std::vector<json> out;
    std::istringstream text(out_.str());
    for (std::string line; std::getline(text, line);) out.push_back(json::parse(line));
    return out;
  }
  std::shared_ptr<spdlog::sinks::sink> make(LogFormat format) {
    return make_event_sink(std::make_shared<spdlog::sinks::ostream_sink_st>(out_), format, "5f0c");
  }

  std::ostringstream out_;
  const spdlog::log_clock::time_point start_{1'700'000'000'123ms};
  std::shared_ptr<spdlog::sinks::sink> sink_ = make(LogFormat::kJson);
};

TEST_F(EventLogTest, OneJsonObjectALine) {
  say_in_new_thread("client_joined: v3");
  say_in_new_thread("a \"text\"\nof two lines", spdlog::level::warn);
  const auto said = lines();
  ASSERT_EQ(said.size(), 2U);
  EXPECT_EQ(said[0], (json{{"ts", "2023-11-14T22:13:20.123Z"},
                           {"level", "info"},
                           {"event", "client_joined"},
                           {"run", "5f0c"},
                           {"message", "client_joined: v3"}}));
  EXPECT_EQ(said[1].at("event"), "log");
  EXPECT_EQ(said[1].at("level"), "warning");
}

TEST_F(EventLogTest, LinesTellTheStepAndTheRankTheyAreAbout) {
  // A separate thread: what is known of the run belongs to the thread.
  std::thread([this] {
    say("a: before any step", 0);
    set_log_step(12);
    {
      const LogRank about(3);
      say("b: a worker", 0);
      const LogRank nobody(std::nullopt);
      say("c: no worker", 0);
    }
    say("d: after it", 0);
    sink_ = make(LogFormat::kText);
    const LogRank about(3);
    say("e: for people", 0);
  }).join();
  std::string text = out_.str();
  const std::string people = "info e: for people [rank 3] [step 12]\n";
  ASSERT_TRUE(text.ends_with(people)) << text;
  out_.str(text.substr(0, text.find("2023-11-14T22:13:20.123Z info")));
  const auto said = lines();
  ASSERT_EQ(said.size(), 4U);
  EXPECT_FALSE(said[0].contains("step") || said[0].contains("rank"));
  EXPECT_EQ(said[1].at("rank"), 3);
  EXPECT_EQ(said[1].at("step"), 12);
  EXPECT_FALSE(said[2].contains("rank"));
  EXPECT_FALSE(said[3].contains("rank"));
  EXPECT_EQ(said[3].at("step"), 12);
}

TEST_F(EventLogTest, BytesThatAreNoTextStayOneLine) {
  say("odd: \xff\xfe", 0);
  ASSERT_EQ(lines().size(), 1U);
}

TEST_F(EventLogTest, OneASecondOfAKindAndTheNextSaysHowManyWereLeftOut) {
  say("joined: v1", 0);
  say("joined: v2", 0.5);
  say("left: v1", 0.6);
  say("joined: v3", 0.9);
  say("joined: v4", 1.1);
  say("joined: v5", 2.2);
  const auto said = lines();
  ASSERT_EQ(said.size(), 4U);
  EXPECT_EQ(said[2].at("message"), "joined: v4");
  EXPECT_EQ(said[2].at("left_out"), 2);
  EXPECT_FALSE(said[3].contains("left_out"));
}

TEST_F(EventLogTest, TheEndSaysWhatWasLeftOut) {
  say("joined: v1", 0);
  say("joined: v2", 0.1);
  sink_.reset();
  ASSERT_EQ(lines().size(), 2U);
  EXPECT_EQ(lines()[1].at("event"), "joined");
  EXPECT_EQ(lines()[1].at("left_out"), 1);
}

TEST_F(EventLogTest, AClockThatGoesBackSilencesNothing) {
  say("joined: v1", 0);
  say("joined: v2", -3600);
  EXPECT_EQ(lines().size(), 2U);
}

TEST_F(EventLogTest, MoreKindsThanAreKeptAreWritten) {
  for (int i = 0; i < 600; ++i) {
    say(std::string(1, static_cast<char>('a' + i % 26)) + static_cast<char>('a' + i / 26 % 26) +
            ": x",
        0);
  }
  EXPECT_EQ(lines().size(), 600U);
}

TEST_F(EventLogTest, TextForPeople) {
  sink_ = make(LogFormat::kText);
  say_in_new_thread("client_joined: v3");
  EXPECT_EQ(out_.str(), "2023-11-14T22:13:20.123Z info client_joined: v3\n");
}

}  // namespace
}  // namespace tt::hub

#include "src/hub/room/leaders.h"

#include <gtest/gtest.h>

#include <chrono>

#include "src/hub/room/run_facts.h"
#include "tests/unit/hub/room_fixture.h"

namespace tt::hub {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

/// A run of two stages.
class LeadersTest : public RoomTest {
 protected:
  std::unique_ptr<FakeClient> lead(int stage) {
    auto leader = join(Role::kWorker);
    say(*leader, {{"id", 1},
                  {"method", "hello"},
                  {"params",
                   {{"versions", {1}},
                    {"role", "worker"},
                    {"rank", stage * 8},
                    {"stage", stage},
                    {"stages", 2},
                    {"run", {{"id", "1"}}}}}});
    EXPECT_TRUE(leader->texts().at(0).contains("result"));
    return leader;
  }
  // The messages of the `log` events.
  static std::vector<std::string> logs(FakeClient& viewer) {
    std::vector<std::string> messages;
    for (const json& text : viewer.texts())
      if (text.value("event", "") == "log") messages.push_back(text.at("params").at("message"));
    return messages;
  }
};

TEST_F(LeadersTest, AStageThatIsMissingForLongIsReportedOnce) {
  const auto first = lead(0);
  const auto viewer = greeted(Role::kViewer);
  room_.tick(start_ + 5s);
  EXPECT_TRUE(logs(*viewer).empty());
  room_.tick(start_ + 6s);
  room_.tick(start_ + 7s);
  EXPECT_EQ(logs(*viewer).size(), 1U);
  now_ = start_ + 8s;
  const auto second = lead(1);
  EXPECT_EQ(logs(*viewer), (std::vector<std::string>{"stage 1 of 2 (rank 8) is connected"}));
  room_.tick(start_ + 60s);
  EXPECT_TRUE(logs(*viewer).empty());
}

TEST_F(LeadersTest, AfterTheEndOfTheRunNoStageIsMissing) {
  const auto first = lead(0);
  const auto second = lead(1);
  const auto viewer = greeted(Role::kViewer);
  say(*first, {{"event", "state"}, {"params", {{"phase", "finished"}, {"step", 9}}}});
  room_.leave(*second);
  room_.tick(Clock::now() + 60s);
  EXPECT_TRUE(logs(*viewer).empty());
  EXPECT_TRUE(room_.ready(now_, 300s).ok());
}

TEST_F(LeadersTest, AnotherRunSendsTheLeadersOfTheOldOneAway) {
  const auto first = lead(0);
  const auto second = lead(1);
  const auto next = join(Role::kWorker);
  say(*next, {{"id", 1},
              {"method", "hello"},
              {"params",
               {{"versions", {1}},
                {"role", "worker"},
                {"rank", 0},
                {"stage", 0},
                {"stages", 2},
                {"run", {{"id", "2"}}}}}});
  EXPECT_EQ(first->closed, "another worker of rank 0 connected");
  EXPECT_EQ(second->closed, "the leader of stage 0 belongs to another run");
  EXPECT_EQ(room_.ready(now_, 300s).error().code, "missing_part");
  EXPECT_EQ(room_.survey(now_).leaders.at(1).connected, false);
}

TEST(Points, OfTwoPartsAreJoinedByName) {
  json facts = {{"points",
                 {{{"name", "A"}, {"flag", 7}, {"first_layer", 1}, {"last_layer", 2}},
                  {{"name", "B"}, {"flag", 16}, {"first_layer", 1}, {"last_layer", 2}}}}};
  const json more = {{{"name", "B"}, {"flag", 32}, {"first_layer", 3}, {"last_layer", 4}},
                     {{"name", "A"}, {"flag", 7}, {"first_layer", 3}, {"last_layer", 4}},
                     {{"name", "C"}, {"flag", 33}}};
  for (int twice = 0; twice < 2; ++twice) {
    const auto numbers = add_points(facts, more);
    ASSERT_TRUE(numbers.ok());
    EXPECT_EQ(numbers.value(), (PointNumbers{{32, 16}}));
    const json& rows = facts.at("points");
    ASSERT_EQ(rows.size(), 3U);
    EXPECT_EQ(rows[0].at("last_layer"), 4);
    EXPECT_EQ(rows[1].at("first_layer"), 1);
    EXPECT_EQ(rows[1].at("flag"), 16);
    EXPECT_EQ(rows[2], more[2]);
  }
  const json before = facts;
  for (const int number : {7, 16, 33}) {
    const json other = json::array({{{"name", "D"}, {"flag", number}}});
    EXPECT_FALSE(add_points(facts, other).ok()) << number;
  }
  EXPECT_EQ(facts, before);
}

TEST(Points, MayBeAbsent) {
  json facts = json::object();
  EXPECT_TRUE(add_points(facts, {}).ok());
  EXPECT_TRUE(add_points(facts, json::array({{{"name", "A"}, {"flag", 7}}})).ok());
  EXPECT_EQ(facts.at("points").size(), 1U);
}

}  // namespace
}  // namespace tt::hub

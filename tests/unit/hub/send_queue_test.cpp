#include "src/hub/fanout/send_queue.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "src/hub/fanout/subscription.h"

namespace tt::hub {
namespace {

constexpr SendQueueLimits kLimits{.total_bytes = 1000, .fresh_bytes = 300, .batch_bytes = 250};

StoredRecord record(std::uint16_t layer, const std::string& bytes, std::uint32_t entry = 0) {
  StoredRecord stored;
  stored.key.layer = layer;
  stored.key.entry = entry;
  stored.bytes = std::make_shared<const std::string>(bytes);
  return stored;
}

Subscription entries(std::set<std::uint32_t> wanted) {
  Subscription subscription;
  subscription.entries = std::move(wanted);
  return subscription;
}

Subscription paced(std::chrono::nanoseconds pause) {
  Subscription wanted;
  wanted.pause = pause;
  return wanted;
}

SharedBytes text(const std::string& bytes) { return std::make_shared<const std::string>(bytes); }

class SendQueueTest : public testing::Test {
 protected:
  // A message of one record.
  void push(const StoredRecord& record, Clock::time_point now) {
    queue_.push_record(record, now);
    latest_.put(record);
    queue_.end_message(now);
  }
  // One of each layer, of 100 bytes.
  void push_message(std::uint16_t layers, char first) {
    for (std::uint16_t layer = 0; layer < layers; ++layer) {
      const std::string layer_name(1, static_cast<char>('A' + layer));
      const StoredRecord made = record(layer, first + layer_name + std::string(98, 'x'));
      queue_.push_record(made, now_);
      latest_.put(made);
    }
    queue_.end_message(now_);
  }
  // Everything that comes out, one string a message; `dropped` notices are added up instead.
  std::vector<std::string> drain() {
    std::vector<std::string> out;
    for (Outgoing next = queue_.pop(); !next.empty(); next = queue_.pop()) {
      std::string message;
      for (const SharedBytes& part : next.parts) message += *part;
      if (next.text && message.find("dropped") != std::string::npos)
        told_ += nlohmann::json::parse(message).at("params").at("records").get<int>();
      else
        out.push_back(message);
    }
    return out;
  }

  LatestRecords latest_{10'000};
  SendQueue queue_{kLimits, latest_};
  const Clock::time_point now_ = Clock::now();
  int told_ = 0;
};

TEST_F(SendQueueTest, TextsGoFirstAndOneByOne) {
  push(record(1, "r"), now_);
  ASSERT_TRUE(queue_.push_text(text("a")));
  ASSERT_TRUE(queue_.push_text(text("b")));
  EXPECT_EQ(drain(), (std::vector<std::string>{"a", "b", "r"}));
  EXPECT_EQ(queue_.bytes(), 0U);
}

TEST_F(SendQueueTest, NothingIsReplacedWhileLittleWaits) {
  for (const char* bytes : {"1", "2", "3"}) push(record(1, bytes), now_);
  EXPECT_EQ(drain(), (std::vector<std::string>{"123"}));
  EXPECT_EQ(queue_.dropped(), 0U);
}

TEST_F(SendQueueTest, TheLatestOfAKeyWinsAndKeepsItsPlaceWhenMuchWaits) {
  push(record(1, std::string(150, 'a')), now_);
  push(record(1, std::string(150, 'b')), now_);
  push(record(2, std::string(150, 'c')), now_);
  push(record(1, std::string(150, 'd')), now_);
  EXPECT_EQ(queue_.dropped(), 2U);
  EXPECT_EQ(queue_.bytes(), 300U);
  EXPECT_EQ(drain(), (std::vector<std::string>{std::string(150, 'd'), std::string(150, 'c')}));
  EXPECT_EQ(told_, 2);
}

TEST_F(SendQueueTest, EveryKeyGetsItsTurnOnASlowConnection) {
  std::vector<int> seen(6, 0);
  for (int step = 0; step < 30; ++step) {
    for (std::uint16_t layer = 0; layer < 6; ++layer)
      push(record(layer, std::string(150, static_cast<char>('a' + layer))), now_);
    for (Outgoing next = queue_.pop(); !next.empty(); next = queue_.pop()) {
      if (!next.text) {
        ++seen.at(static_cast<std::size_t>(next.parts.at(0)->front() - 'a'));
        break;  // one message while six are made
      }
    }
  }
  for (const int count : seen) EXPECT_GE(count, 4);
}

TEST_F(SendQueueTest, AboveTheLimitTheOldestRecordsOfEarlierMessagesGo) {
  for (std::uint16_t layer = 0; layer < 13; ++layer) {
    push(record(layer, std::string(100, static_cast<char>('a' + layer))), now_);
    EXPECT_LE(queue_.bytes(), 1100U) << "the limit and one message";
  }
  EXPECT_EQ(queue_.dropped(), 2U);
  EXPECT_EQ(drain().front().front(), 'c');
}

TEST_F(SendQueueTest, AMessageAboveTheLimitReachesAReaderWhole) {
  for (const char first : {'a', 'b'}) {
    push_message(30, first);
    ASSERT_TRUE(queue_.push_text(text("t")));
    EXPECT_EQ(queue_.bytes(), 3001U);
    EXPECT_EQ(drain().size(), 1U + 15U);
  }
  EXPECT_EQ(queue_.dropped(), 0U);
  EXPECT_EQ(queue_.bytes(), 0U);
}

TEST_F(SendQueueTest, WhatAStalledReaderKeepsIsTheLimitAndOneMessage) {
  for (std::uint32_t entry = 0; entry < 20; ++entry) {
    for (std::uint16_t layer = 0; layer < 30; ++layer)
      queue_.push_record(record(layer, std::string(100, 'x'), entry), now_);
    queue_.end_message(now_);
    EXPECT_LE(queue_.bytes(), 1000U + 3000U);
  }
  EXPECT_EQ(queue_.dropped(), 20U * 30U - 40U);
  EXPECT_EQ(drain().size(), 20U);
  EXPECT_EQ(told_, 560);
  EXPECT_EQ(queue_.bytes(), 0U);
}

TEST_F(SendQueueTest, OfMessagesAboveTheLimitEveryKeyGetsItsTurn) {
  std::set<std::string> seen;
  for (char step = 'a'; step < 'a' + 15; ++step) {
    push_message(30, step);
    Outgoing next = queue_.pop();
    for (; next.text; next = queue_.pop()) {
    }
    for (const SharedBytes& part : next.parts) {
      EXPECT_EQ(part->front(), step) << "the newest";
      seen.insert(std::string(part->substr(1)));
    }
  }
  EXPECT_EQ(seen.size(), 30U);
}

TEST_F(SendQueueTest, WhatItsRateReleasesTogetherIsOneMessage) {
  queue_.subscribe(paced(std::chrono::seconds(1)));
  push_message(30, 'a');
  EXPECT_EQ(drain().size(), 15U);
  push_message(30, 'b');
  EXPECT_TRUE(drain().empty());
  EXPECT_TRUE(queue_.release_held(now_ + std::chrono::seconds(1)));
  EXPECT_EQ(queue_.bytes(), 3000U);
}

TEST_F(SendQueueTest, OfAMessageThatIsNotTakenOnlyTheLimitStaysWhenOthersHoldNothingForIt) {
  push_message(30, 'a');
  queue_.end_message(now_ + std::chrono::milliseconds(4999));
  EXPECT_EQ(queue_.bytes(), 3000U);
  queue_.end_message(now_ + std::chrono::seconds(5));
  EXPECT_EQ(queue_.bytes(), 1000U);
  EXPECT_EQ(queue_.dropped(), 20U);
}

TEST_F(SendQueueTest, WhatWaitsForItsRateIsOnlyTheLatestThatIsKeptAnyway) {
  queue_.subscribe(paced(std::chrono::seconds(1)));
  push_message(3, 'a');
  drain();
  const auto bytes = std::make_shared<const std::string>(100, 'b');
  StoredRecord waiting = record(1, "");
  waiting.bytes = bytes;
  push(waiting, now_);
  EXPECT_EQ(bytes.use_count(), 3) << "the two here and the latest";
  latest_.clear();
  EXPECT_FALSE(queue_.release_held(now_ + std::chrono::seconds(1)));
  EXPECT_EQ(queue_.dropped(), 1U);
}

TEST_F(SendQueueTest, TextsAreNeverDroppedButRefusedWhenTheyAloneAreTooMuch) {
  for (const std::uint16_t layer : {1, 2, 3})  // the last is the newest message
    push(record(layer, std::string(300, 'r')), now_);
  ASSERT_TRUE(queue_.push_text(text(std::string(600, 't'))));
  EXPECT_EQ(queue_.dropped(), 1U);
  EXPECT_FALSE(queue_.push_text(text(std::string(401, 'u'))));
  EXPECT_TRUE(queue_.push_text(text(std::string(400, 'v'))));
}

TEST_F(SendQueueTest, ARecordAboveAllLimitsIsStillSentAlone) {
  push(record(1, "small"), now_);
  push(record(2, std::string(5000, 'B')), now_);
  EXPECT_EQ(drain(), (std::vector<std::string>{"small", std::string(5000, 'B')}));
  EXPECT_EQ(told_, 0);
}

TEST_F(SendQueueTest, BatchesStayBelowTheirSize) {
  for (std::uint16_t layer = 0; layer < 7; ++layer)
    push(record(layer, std::string(100, 'x')), now_);
  std::vector<std::size_t> sizes;
  for (const std::string& message : drain()) sizes.push_back(message.size());
  EXPECT_EQ(sizes, (std::vector<std::size_t>{200, 200, 200, 100}));
}

TEST_F(SendQueueTest, SubscriptionFiltersWhatWaitsAndWhatComes) {
  push(record(1, "a", 0), now_);
  push(record(1, "b", 1), now_);
  queue_.subscribe(entries({1}));
  push(record(2, "c", 0), now_);
  EXPECT_EQ(drain(), (std::vector<std::string>{"b"}));
  EXPECT_EQ(queue_.dropped(), 0U);
}

TEST_F(SendQueueTest, WideningOffersTheLatestOfTheNewEntriesOnly) {
  latest_.put(record(1, "a", 0));
  latest_.put(record(1, "b", 1));
  queue_.subscribe(entries({1}));
  EXPECT_TRUE(drain().empty());
  queue_.subscribe({});
  EXPECT_EQ(drain(), (std::vector<std::string>{"a"}));
}

TEST_F(SendQueueTest, OfferedRecordsAreTheLatestAtTheirTurnAndNeverOlderThanWhatWasSent) {
  latest_.put(record(1, "old"));
  latest_.put(record(2, "other"));
  queue_.offer_latest();
  const StoredRecord fresh = record(1, "new");
  push(fresh, now_);
  latest_.put(fresh);
  EXPECT_EQ(drain(), (std::vector<std::string>{"othernew"}));
}

TEST_F(SendQueueTest, OfferedRecordsThatWereForgottenAreSkipped) {
  latest_.put(record(1, "gone"));
  queue_.offer_latest();
  latest_.clear();
  EXPECT_TRUE(drain().empty());
}

TEST(LatestRecords, KeepsOnePerKeyWithinItsBytes) {
  LatestRecords latest(250);
  latest.put(record(1, std::string(100, 'a')));
  latest.put(record(2, std::string(100, 'b')));
  latest.put(record(1, std::string(100, 'c')));
  EXPECT_EQ(latest.bytes(), 200U);
  latest.put(record(3, std::string(100, 'd')));
  EXPECT_EQ(latest.find(record(2, "").key), nullptr) << "the longest unchanged one goes";
  ASSERT_NE(latest.find(record(1, "").key), nullptr);
  EXPECT_EQ(latest.find(record(1, "").key)->bytes->front(), 'c');
  EXPECT_EQ(latest.keys().size(), 2U);
}

/// Makes a text at a time, when it is let.
class FakeSource : public TextSource {
 public:
  std::optional<SharedBytes> next() override {
    making_ = left > 0 && !made;
    if (left == 0 || !made) return std::nullopt;
    --left;
    return text("made");
  }
  bool is_making() const override { return making_; }

  int left = 0;
  bool made = true;

 private:
  bool making_ = false;
};

TEST_F(SendQueueTest, TextsOfASourceGoOutWhenNothingElseWaits) {
  FakeSource source;
  queue_.draw_from(&source);
  source.left = 2;
  push(record(1, "a"), now_);
  ASSERT_TRUE(queue_.push_text(text("t")));
  EXPECT_EQ(drain(), (std::vector<std::string>{"t", "a", "made", "made"}));
  source.left = 1;
  queue_.draw_from(nullptr);
  EXPECT_TRUE(drain().empty());
}

TEST_F(SendQueueTest, ATextThatIsBeingMadeIsAwaitedAndOtherTextsPassIt) {
  FakeSource source;
  queue_.draw_from(&source);
  source.left = 1;
  source.made = false;
  EXPECT_FALSE(queue_.awaits_text());
  EXPECT_TRUE(queue_.pop().empty());
  EXPECT_TRUE(queue_.awaits_text());
  ASSERT_TRUE(queue_.push_text(text("t")));
  EXPECT_EQ(drain(), (std::vector<std::string>{"t"}));
  source.made = true;
  EXPECT_EQ(drain(), (std::vector<std::string>{"made"}));
  EXPECT_FALSE(queue_.awaits_text());
}

TEST(LatestRecords, ForgetsOldPlans) {
  LatestRecords latest(1000);
  StoredRecord old_plan = record(1, "a");
  old_plan.plan = 3;
  StoredRecord new_plan = record(2, "b");
  new_plan.plan = 4;
  latest.put(old_plan);
  latest.put(new_plan);
  latest.forget_plans_before(4);
  EXPECT_EQ(latest.keys(), (std::vector<protocol::RecordKey>{new_plan.key}));
  EXPECT_EQ(latest.bytes(), 1U);
}

TEST_F(SendQueueTest, PointsAndLayersAreChosen) {
  Subscription wanted;
  wanted.points = {7};
  wanted.layers = std::vector<base::Range>{{1, 2}};
  queue_.subscribe(wanted);
  for (const std::uint16_t point : {4, 7}) {
    for (std::uint16_t layer = 1; layer <= 3; ++layer) {
      StoredRecord made = record(layer, std::to_string(point) + std::to_string(layer));
      made.point = point;
      push(made, now_);
    }
  }
  EXPECT_EQ(drain(), (std::vector<std::string>{"7172"}));
}

TEST_F(SendQueueTest, ARateHoldsBackAllButTheLatestOfAKey) {
  queue_.subscribe(paced(std::chrono::milliseconds(100)));
  for (const char* bytes : {"1", "2", "3"}) push(record(1, bytes), now_);
  push(record(2, "other"), now_);
  EXPECT_EQ(drain(), (std::vector<std::string>{"1other"}));
  EXPECT_FALSE(queue_.release_held(now_ + std::chrono::milliseconds(99)));
  EXPECT_TRUE(queue_.release_held(now_ + std::chrono::milliseconds(100)));
  EXPECT_EQ(drain(), (std::vector<std::string>{"3"}));
  push(record(1, "4"), now_ + std::chrono::milliseconds(150));
  EXPECT_TRUE(drain().empty());
  push(record(1, "5"), now_ + std::chrono::milliseconds(200));
  EXPECT_EQ(drain(), (std::vector<std::string>{"5"}));
  EXPECT_FALSE(queue_.release_held(now_ + std::chrono::seconds(9)));
  EXPECT_EQ(queue_.dropped(), 0U);
}

TEST_F(SendQueueTest, WhatWaitsForItsRateIsNotLostByANewSubscription) {
  queue_.subscribe(paced(std::chrono::seconds(10)));
  for (const char* bytes : {"1", "2", "3"}) {
    push(record(1, bytes), now_);
    push(record(2, bytes), now_);
  }
  EXPECT_EQ(drain(), (std::vector<std::string>{"11"}));
  Subscription second;
  second.layers = std::vector<base::Range>{{2, 2}};
  queue_.subscribe(second);
  EXPECT_EQ(drain(), (std::vector<std::string>{"3"}));
}

TEST_F(SendQueueTest, AWindowStopsBinaryMessagesUntilTheyAreAcknowledged) {
  queue_.set_window(2);
  for (std::uint16_t layer = 1; layer <= 4; ++layer)
    push(record(layer, std::string(200, static_cast<char>('a' + layer))), now_);
  EXPECT_EQ(drain().size(), 2U);
  ASSERT_TRUE(queue_.push_text(text("texts pass")));
  EXPECT_EQ(drain(), (std::vector<std::string>{"texts pass"}));
  EXPECT_FALSE(queue_.acknowledge(3));  // only two were sent
  EXPECT_TRUE(queue_.acknowledge(1));
  EXPECT_FALSE(queue_.acknowledge(0));
  EXPECT_EQ(drain().size(), 1U);
  EXPECT_TRUE(queue_.acknowledge(3));
  EXPECT_EQ(drain().size(), 1U);
}

TEST_F(SendQueueTest, DataTextsTakeTurnsWithRecordsAndWaitForTheWindow) {
  queue_.set_window(1);
  for (const char* bytes : {"d1", "d2"}) queue_.push_data("key", text(bytes));
  push(record(1, std::string(200, 'a')), now_);
  push(record(2, std::string(200, 'b')), now_);
  ASSERT_TRUE(queue_.push_text(text("control")));
  EXPECT_EQ(drain(), (std::vector<std::string>{"control", std::string(200, 'a')}));
  EXPECT_TRUE(queue_.acknowledge(1));
  EXPECT_EQ(drain(), (std::vector<std::string>{"d1", std::string(200, 'b')}));
  EXPECT_TRUE(queue_.acknowledge(2));
  EXPECT_EQ(drain(), (std::vector<std::string>{"d2"}));
  EXPECT_EQ(queue_.bytes(), 0U);
}

TEST_F(SendQueueTest, OfDataTextsTheLatestOfAKeyWinsWhenMuchWaits) {
  for (const char first : {'a', 'b', 'c', 'd'}) {
    queue_.push_data("one", text(std::string(200, first)));
    queue_.push_data("two", text(std::string(100, first)));
  }
  EXPECT_EQ(queue_.bytes(), 500U) << "300 bytes wait before anything is replaced";
  const Outgoing notice = queue_.pop();
  EXPECT_EQ(
      nlohmann::json::parse(*notice.parts.front()).at("params"),
      nlohmann::json::parse(R"({"records": 0, "where": "viewer", "entries": {}, "events": 5})"));
  EXPECT_EQ(drain(), (std::vector<std::string>{std::string(200, 'a'), std::string(100, 'd'),
                                               std::string(200, 'd')}));
  EXPECT_EQ(queue_.dropped(), 0U) << "no records";
}

TEST_F(SendQueueTest, DataTextsNeverRefuseATextAndTheOldestGo) {
  for (int key = 0; key < 20; ++key) {
    queue_.push_data(std::to_string(key), text(std::string(100, static_cast<char>('a' + key))));
    EXPECT_LE(queue_.bytes(), 1000U);
  }
  push(record(1, std::string(100, 'R')), now_);
  ASSERT_TRUE(queue_.push_text(text(std::string(600, 'T'))));
  const auto out = drain();
  ASSERT_EQ(out.size(), 6U);
  EXPECT_EQ(out[0].front(), 'T');
  EXPECT_EQ(out[1].front(), 'R');
  EXPECT_EQ(out[5].front(), 't') << "the newest";
  queue_.push_data("big", text(std::string(5000, 'B')));
  EXPECT_EQ(drain().size(), 1U) << "one stays even if it is bigger than everything allowed";
}

TEST(Subscription, LayersAreRangesInAnyOrder) {
  const auto wanted = [](const char* layers, std::uint16_t layer) {
    const auto parsed = parse_subscription({.layers = layers}, nullptr);
    return parsed.ok() && parsed.value().wants(record(layer, ""));
  };
  for (const std::uint16_t layer : {1, 2, 4, 6, 9, 65535})
    EXPECT_TRUE(wanted("65535,9,3-6,1-4,2", layer)) << layer;
  for (const std::uint16_t layer : {0, 7, 8, 10})
    EXPECT_FALSE(wanted("65535,9,3-6,1-4,2", layer)) << layer;
  EXPECT_FALSE(parse_subscription({.layers = "1-65536"}, nullptr).ok());
  EXPECT_EQ(parse_subscription({.layers = "5,0-65535,7"}, nullptr).value().layers->size(), 1U);
}

TEST_F(SendQueueTest, DropsAreToldByEntry) {
  for (int i = 0; i < 4; ++i) push(record(1, std::string(400, 'x'), 5), now_);
  const Outgoing notice = queue_.pop();
  ASSERT_TRUE(notice.text);
  const auto params = nlohmann::json::parse(*notice.parts.front()).at("params");
  EXPECT_EQ(params.at("entries").at("5"), params.at("records"));
  EXPECT_EQ(params.at("records"), queue_.dropped());
}

}  // namespace
}  // namespace tt::hub

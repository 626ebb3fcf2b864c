#include "src/hub/legacy/update_encoder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <semaphore>
#include <string>
#include <vector>

#include "tensor_tracer/protocol/record.h"

namespace tt::hub::dialect {
namespace {

base::SharedBytes record_of(float number) {
  protocol::RecordHeader header{.point = 7, .layer = 1, .ndim = 1};
  header.dtype = protocol::Dtype::kF32;
  header.shape = {1, 1, 1, 1};
  std::string bytes;
  protocol::append_record(bytes, header, std::as_bytes(std::span(&number, 1)));
  return std::make_shared<const std::string>(std::move(bytes));
}

double number_of(const base::SharedBytes& text) {
  return nlohmann::json::parse(*text).at("result").at(0).get<double>();
}

class UpdateEncoderTest : public testing::Test {
 protected:
  void collect_next() {
    made_.acquire();
    encoder_.collect();
  }
  std::optional<base::SharedBytes> ask(const base::SharedBytes& record,
                                       Dialect dialect = Dialect::kTensorTracer) {
    return encoder_.update_of(dialect, record);
  }

  double now_ = 0;  // the thread's: there is time to spare whenever it looks
  std::counting_semaphore<> made_{0};
  UpdateEncoder encoder_{[this] { made_.release(); },
                         {.waiting = 2, .kept_bytes = 600},
                         SpareTime([this] { return now_ += 1000; }, [] { return 0.0; })};
};

TEST_F(UpdateEncoderTest, MakesAnUpdateOnceForAllWhoAsk) {
  const base::SharedBytes record = record_of(2.5F);
  EXPECT_FALSE(ask(record));
  EXPECT_FALSE(ask(record)) << "on its way";
  EXPECT_FALSE(ask(record, Dialect::kMegaScope));
  EXPECT_FALSE(ask(record, Dialect::kMegaScope)) << "waits";
  collect_next();
  collect_next();
  const auto first = ask(record);
  const auto second = ask(record);
  ASSERT_TRUE(first && second && ask(record, Dialect::kMegaScope));
  EXPECT_EQ((*first)->data(), (*second)->data());
  EXPECT_EQ(number_of(*first), 2.5);
  encoder_.collect();
  EXPECT_FALSE(made_.try_acquire()) << "nothing is made twice";
}

TEST_F(UpdateEncoderTest, DropsTheOldestThatWaits) {
  std::vector<base::SharedBytes> records;
  for (int i = 0; i < 5; ++i) {
    records.push_back(record_of(static_cast<float>(i)));
    EXPECT_FALSE(ask(records.back()));
  }
  for (const int made : {0, 3, 4}) {  // the first was the thread's at once
    collect_next();
    ASSERT_TRUE(ask(records[static_cast<std::size_t>(made)])) << made;
  }
  encoder_.collect();
  EXPECT_FALSE(made_.try_acquire());
  EXPECT_FALSE(ask(records[1])) << "asked for again";
  collect_next();
  EXPECT_TRUE(ask(records[1]));
}

TEST_F(UpdateEncoderTest, KeepsTheNewestWithinItsBytes) {
  std::vector<base::SharedBytes> records;
  for (int i = 0; i < 4; ++i) {
    records.push_back(record_of(static_cast<float>(i)));
    EXPECT_FALSE(ask(records.back()));
    collect_next();
  }
  EXPECT_TRUE(ask(records[3]));
  EXPECT_FALSE(ask(records[0])) << "its bytes went to newer ones";
  collect_next();
}

TEST(UpdateEncoder, WaitsForTimeToSpare) {
  std::counting_semaphore<> made{0};
  std::atomic<double> now = 0;
  UpdateEncoder encoder([&] { made.release(); }, {},
                        SpareTime([&] { return now.load(); }, [] { return 0.0; }));
  const base::SharedBytes first = record_of(1), second = record_of(2);
  EXPECT_FALSE(encoder.update_of(Dialect::kTensorTracer, first));
  EXPECT_FALSE(encoder.update_of(Dialect::kTensorTracer, second));
  made.acquire();
  encoder.collect();
  EXPECT_FALSE(made.try_acquire_for(std::chrono::milliseconds(50))) << "no time goes by";
  now = 1000;
  made.acquire();
  encoder.collect();
  EXPECT_TRUE(encoder.update_of(Dialect::kTensorTracer, second));
}

TEST(UpdateEncoder, EndsWithWorkThatNobodyCollects) {
  for (int i = 0; i < 20; ++i) {
    UpdateEncoder encoder([] {});
    const base::SharedBytes record = record_of(1);
    EXPECT_FALSE(encoder.update_of(Dialect::kTensorTracer, record));
  }
}

}  // namespace
}  // namespace tt::hub::dialect

#include "src/hub/alarms/spike_recorder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tensor_tracer/record/recording.h"

namespace tt::hub {
namespace {

using nlohmann::json;

class SpikeRecorderTest : public testing::Test {
 protected:
  SpikeRecorderTest() {
    std::filesystem::create_directories(folder_);
    make();
    follow(1);
  }
  ~SpikeRecorderTest() override { std::filesystem::remove_all(folder_); }
  SpikeRecorderTest(const SpikeRecorderTest&) = delete;
  SpikeRecorderTest& operator=(const SpikeRecorderTest&) = delete;

  void make() {
    spikes_ = std::make_unique<SpikeRecorder>(
        3, folder_, [this](const SpikeRecorder::Written& one) { written_.push_back(one); }, 2000);
  }
  void follow(std::uint32_t plan) {
    spikes_->follow({{"id", "5f0c00000000abcd"}, {"plan", {{"number", plan}}}});
  }
  void record(std::uint64_t step, std::size_t size = 16) {
    protocol::RecordHeader header{.run = 0x5f0c00000000abcd, .step = step, .plan = 1};
    header.ndim = 1;
    header.dtype = protocol::Dtype(200);
    std::string bytes;
    protocol::append_record(bytes, header, std::vector<std::byte>(size));
    spikes_->add_record(header, std::make_shared<const std::string>(std::move(bytes)));
  }
  void step(std::uint64_t number, std::size_t records = 1, std::size_t size = 16) {
    for (std::size_t i = 0; i < records; ++i) record(number, size);
    spikes_->add_step({{"step", number}, {"loss", 1.0}});
  }
  // Waits until the file is written; "first to last, records".
  std::string write(std::uint64_t at) {
    const std::size_t before = written_.size();
    spikes_->write(at, Clock::now());
    spikes_.reset();
    make();
    follow(1);
    if (written_.size() == before) return "";
    const SpikeRecorder::Written& one = written_.back();
    EXPECT_TRUE(one.status.ok());
    return std::to_string(one.first_step) + " to " + std::to_string(one.last_step) + ", " +
           std::to_string(one.records);
  }

  const std::string folder_ =
      testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name();
  std::vector<SpikeRecorder::Written> written_;
  std::unique_ptr<SpikeRecorder> spikes_;
};

TEST_F(SpikeRecorderTest, WritesTheLastStepsAsARecording) {
  for (std::uint64_t i = 1; i <= 10; ++i) step(i, 2);
  EXPECT_EQ(write(10), "8 to 10, 6");
  auto recording = record::Recording::open(folder_ + "/spike-10.ttrec").value();
  const auto runs = recording.runs();
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].id, "5f0c00000000abcd");
  EXPECT_EQ(recording.count_frames(runs[0].run), 6U);
  EXPECT_EQ(recording.steps(runs[0].run, 0, INT64_MAX, 10).size(), 3U);
}

TEST_F(SpikeRecorderTest, ForgetsTheStepsOfAnotherPlan) {
  step(1);
  step(2);
  follow(2);
  step(3);
  EXPECT_EQ(write(3), "3 to 3, 1");
}

TEST_F(SpikeRecorderTest, WritesNothingIfItHasNothing) {
  EXPECT_EQ(write(1), "");
  step(1);
  spikes_->write(1, Clock::now());
  spikes_->write(1, Clock::now());  // these steps are written already
  spikes_.reset();
  EXPECT_EQ(written_.size(), 1U);
}

// A step's end waits less in the trainer's queue than its records.
TEST_F(SpikeRecorderTest, LateRecordsJoinTheirStep) {
  step(1, 0);
  step(2, 0);
  record(1);
  step(3, 0);
  const auto now = Clock::now();
  spikes_->write(3, now);
  record(2);
  record(3);
  step(4);
  record(3);
  spikes_->tick(now + SpikeRecorder::kLateness / 2);
  EXPECT_TRUE(written_.empty());
  spikes_->tick(now + SpikeRecorder::kLateness);
  spikes_.reset();
  ASSERT_EQ(written_.size(), 1U);
  EXPECT_EQ(written_[0].records, 4U);
  EXPECT_EQ(written_[0].last_step, 3U);
}

TEST_F(SpikeRecorderTest, HasALimitOfBytes) {
  constexpr std::size_t kRecord = 760;  // with its header, less than half of the limit
  step(1, 1, kRecord);
  step(2, 1, kRecord);
  step(3, 1, 16);
  EXPECT_EQ(write(3), "1 to 3, 3");
  step(4, 1, kRecord);
  step(5, 1, kRecord);
  step(6, 1, kRecord);
  EXPECT_EQ(write(6), "5 to 6, 2");
}

}  // namespace
}  // namespace tt::hub

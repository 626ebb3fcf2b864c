#include "src/record/bound.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>
#include <string>
#include <thread>

#include "tests/unit/record/recorder_fixture.h"

namespace tt::record {
namespace {

class BoundTest : public RecorderTest {
 protected:
  std::unique_ptr<Recorder> start_bounded(std::uint64_t max_bytes) {
    return start([=](RecorderOptions& options) {
      options.max_bytes = max_bytes;
      options.commit_interval = std::chrono::milliseconds(1);
    });
  }

  std::uint64_t log_bytes() const {
    const std::string log = path() + "-wal";
    return fs::exists(log) ? fs::file_size(log) : 0;
  }

  // Numbers of the prompt sets of all frames, with their steps.
  std::set<std::pair<std::uint64_t, int>> steps_and_sets() {
    std::set<std::pair<std::uint64_t, int>> out;
    reader().frames({.run = kRun}, [&](const Frame& frame) {
      const auto record = protocol::read_record(frame.record).value();
      out.emplace(frame.at.step, record.header.prompt_set);
      return true;
    });
    return out;
  }
};

void wait_for(const Recorder& recorder, std::uint64_t records) {
  while (recorder.counters().records + recorder.counters().dropped < records)
    std::this_thread::yield();
}

TEST_F(BoundTest, EventsThatAreDataGoWithTheOldestFrames) {
  constexpr std::uint64_t kMax = 4 << 20;
  {
    const auto recorder = start([&](RecorderOptions& options) { options.max_bytes = kMax; });
    recorder->add_event({.run = kRun, .step = 1, .kind = "log", .detail = {}});
    for (std::uint64_t step = 1; step <= 40; ++step) {
      add(*recorder, make_record(step, 7, 1, 100'000));
      recorder->add_event(saved(step, 100'000));
    }
    for (std::uint64_t step = 41; step <= 100; ++step) recorder->add_event(saved(step, 100'000));
  }
  Recording recording = reader();
  EXPECT_EQ(recording.events({.limit = 9}).size(), 1U) << "the audit trail stays";
  const auto left = recording.trainer_events(kRun);
  ASSERT_FALSE(left.empty());
  EXPECT_LT(left.size(), 42U);
  EXPECT_EQ(left.back().step, 100U);
  EXPECT_EQ(left.back().step - left.front().step + 1, left.size());
}

TEST_F(BoundTest, TheOldestStepsMakeRoom) {
  constexpr std::uint64_t kMax = 4 << 20;
  {
    const auto recorder = start([](RecorderOptions& options) {
      options.max_bytes = kMax;
      options.commit_interval = std::chrono::milliseconds(1);
    });
    for (std::uint64_t step = 1; step <= 200; ++step) {
      add(*recorder, make_record(step, 7, 1, 100'000));
      recorder->add_step(kRun, {{"step", step}, {"loss", 1.5}}, 1);
    }
  }
  EXPECT_LT(fs::file_size(path()), kMax + 9 * (1 << 20));  // and one transaction
  Recording recording = reader();
  const auto kept = steps_and_layers(recording, {});
  ASSERT_GT(kept.size(), 20U);
  EXPECT_LT(kept.size(), 45U);
  EXPECT_EQ(kept.back().first, 200U);
  EXPECT_EQ(kept.front().first, 201 - kept.size());
  EXPECT_EQ(recording.steps(kRun, 0, 1000, 1000).size(), 200U);
}

TEST_F(BoundTest, ScalarsTakeHalfOfTheBoundAtMost) {
  constexpr std::uint64_t kMax = 4 << 20;
  constexpr std::uint64_t kSteps = 5000;
  RecorderCounters counters;
  {
    const auto recorder = start([](RecorderOptions& options) { options.max_bytes = kMax; });
    for (std::uint64_t step = 1; step <= kSteps; ++step) {
      json params = {{"step", step}};
      for (int name = 0; name < 30; ++name) params["number_" + std::to_string(name)] = name;
      recorder->add_step(kRun, params, step);
      add(*recorder, make_record(step, 7, 1, 1000));
    }
    while (counters.records < kSteps) {
      std::this_thread::yield();
      counters = recorder->counters();
    }
  }
  EXPECT_LE(counters.file_bytes, kMax);
  Recording recording = reader();
  EXPECT_GT(recording.count_frames(kRun), 500U);
  const auto steps = recording.steps(kRun, 0, kSteps, kSteps);
  EXPECT_LT(steps.size(), 2500U);
  EXPECT_GT(steps.size(), 500U);
  EXPECT_EQ(steps.front().step, 1U);
  EXPECT_EQ(steps.back().step, kSteps);
}

TEST_F(BoundTest, TheFileStaysAtItsBoundWhileAReaderHoldsItOpen) {
  constexpr std::uint64_t kMax = 4 << 20;
  constexpr std::uint64_t kSteps = 400;
  RecorderCounters counters;
  {
    const auto recorder = start_bounded(kMax);
    add(*recorder, make_record(1, 7, 1, 100'000));
    wait_for(*recorder, 1);
    SQLite::Database reads(path(), SQLite::OPEN_READONLY);
    reads.exec("BEGIN");
    ASSERT_EQ(reads.execAndGet("SELECT count(*) FROM frames").getInt(), 1);
    for (std::uint64_t step = 2; step <= kSteps; ++step) {
      add(*recorder, make_record(step, 7, 1, 100'000));
      if (step % 40 == 0)  // each commit of scalars makes the log longer
        recorder->add_step(kRun, {{"step", step}, {"loss", 1.5}}, step);
      wait_for(*recorder, step);
      ASSERT_LE(fs::file_size(path()), kMax);
      ASSERT_LE(log_bytes(), kMax / 2) << "step " << step;
    }
    counters = recorder->counters();
    EXPECT_EQ(reads.execAndGet("SELECT count(*) FROM frames").getInt(), 1) << "its own state";
    reads.exec("COMMIT");
    for (std::uint64_t step = kSteps + 1; step <= kSteps + 9; ++step) {
      add(*recorder, make_record(step, 7, 1, 100'000));
      wait_for(*recorder, step);
    }
    EXPECT_EQ(recorder->counters().dropped, counters.dropped) << "the reader has ended";
  }
  EXPECT_GT(counters.dropped, 100U) << "and they are counted";
  EXPECT_LE(fs::file_size(path()), kMax);
  EXPECT_EQ(reader().steps(kRun, 0, kSteps, 1000).size(), kSteps / 40) << "no scalar is lost";
  EXPECT_EQ(SQLite::Database(path()).execAndGet("PRAGMA integrity_check").getString(), "ok");
}

TEST_F(BoundTest, TracedRecordsGoBeforeThoseOfPromptsAndAnEventNever) {
  constexpr std::uint64_t kMax = 4 << 20;
  {
    const auto recorder = start_bounded(kMax);
    for (std::uint64_t step = 1; step <= 90; ++step) {
      recorder->add_event({.run = kRun, .step = step, .kind = "log", .detail = {}});
      add(*recorder, make_record(step, 7, 1, 100'000));
      if (step <= 10) add(*recorder, make_record(step, 7, 1, 100'000, 1));
    }
  }
  const auto few = steps_and_sets();
  for (int step = 1; step <= 10; ++step) EXPECT_TRUE(few.contains({step, 1})) << step;
  EXPECT_FALSE(few.contains({1, 0}));
  EXPECT_TRUE(few.contains({90, 0}));
  EXPECT_EQ(reader().events({.limit = 1000}).size(), 90U);
  {
    const auto recorder = start_bounded(kMax);
    for (std::uint64_t step = 91; step <= 200; ++step)
      add(*recorder, make_record(step, 7, 1, 100'000, 1));
  }
  const auto many = steps_and_sets();
  EXPECT_FALSE(many.contains({1, 1})) << "the oldest of prompts go once no traced ones are left";
  EXPECT_TRUE(many.contains({200, 1}));
  EXPECT_EQ(reader().events({.limit = 1000}).size(), 90U);
  EXPECT_LE(fs::file_size(path()), kMax);
}

TEST_F(BoundTest, AStepThatIsLargerThanTheFileIsLeftOutInPart) {
  constexpr std::uint64_t kMax = 2 << 20;
  const auto recorder = start_bounded(kMax);
  for (std::uint16_t layer = 1; layer <= 40; ++layer)
    add(*recorder, make_record(1, 7, layer, 100'000));
  wait_for(*recorder, 40);
  EXPECT_GT(recorder->counters().dropped, 20U);
  add(*recorder, make_record(2, 7, 1, 100'000));
  wait_for(*recorder, 41);
  recorder->finish();
  EXPECT_LE(fs::file_size(path()), kMax);
  EXPECT_EQ(steps_and_sets(), (std::set<std::pair<std::uint64_t, int>>{{2, 0}}));
}

TEST_F(BoundTest, StepsThatFillTheFileFollowEachOther) {
  constexpr std::uint64_t kMax = 2 << 20;
  constexpr std::uint64_t kSteps = 30;
  {
    const auto recorder = start_bounded(kMax);
    for (std::uint64_t step = 1; step <= kSteps; ++step) {
      for (std::uint16_t layer = 1; layer <= 25; ++layer)
        add(*recorder, make_record(step, 7, layer, 100'000));
      recorder->add_step(kRun, {{"step", step}, {"loss", 1.5}}, step);
    }
  }
  EXPECT_EQ(steps_and_sets(), (std::set<std::pair<std::uint64_t, int>>{{kSteps, 0}}));
  EXPECT_GT(reader().count_frames(kRun), 10U);
  EXPECT_EQ(reader().steps(kRun, 0, kSteps, 1000).size(), kSteps)
      << "scalars do not go for records";
  EXPECT_LE(fs::file_size(path()), kMax);
}

// Scalars of a loss with a peak, a pit and one NaN.
double loss_at(std::uint64_t step) {
  if (step == 777) return std::numeric_limits<double>::quiet_NaN();
  return step == 1234 ? 100.0 : step == 4321 ? -100.0 : 5.0 + std::sin(static_cast<double>(step));
}

TEST_F(BoundTest, ThinnedScalarsKeepTheirEndsAndExtremes) {
  constexpr std::uint64_t kMax = 1 << 20;
  constexpr std::uint64_t kSteps = 60'000;
  {
    const auto recorder = start_bounded(kMax);
    for (std::uint64_t step = 1; step <= kSteps; ++step)
      recorder->add_step(kRun, {{"step", step}, {"loss", loss_at(step)}, {"lr", 0.5}}, step);
  }
  EXPECT_LE(fs::file_size(path()), kMax);
  const auto rows = reader().steps(kRun, 0, kSteps, kSteps);
  EXPECT_GT(rows.size(), 2000U);
  EXPECT_LT(rows.size(), kSteps / 2);
  std::set<std::uint64_t> steps;
  for (const StepRow& row : rows) {
    if (row.params.contains("loss")) {
      steps.insert(row.step);
      const double loss = row.params["loss"].get<double>();
      EXPECT_TRUE(loss == loss_at(row.step) || (std::isnan(loss) && row.step == 777));
    }
  }
  for (const std::uint64_t step : {std::uint64_t{1}, std::uint64_t{777}, std::uint64_t{1234},
                                   std::uint64_t{4321}, kSteps - 1, kSteps})
    EXPECT_TRUE(steps.contains(step)) << step;
  std::uint64_t before = 0;
  for (const std::uint64_t step : steps) {
    EXPECT_LT(step - before, 1000U) << "no long part without values";
    before = step;
  }
}

TEST_F(BoundTest, AKeptFileHasNoBoundAndStaysKept) {
  constexpr std::uint64_t kMax = 1 << 20;
  {
    const auto recorder = start_bounded(kMax);
    EXPECT_EQ(recorder->max_bytes(), kMax);
    recorder->keep_all();
    EXPECT_EQ(recorder->max_bytes(), 0U);
    for (std::uint64_t step = 1; step <= 20; ++step)
      add(*recorder, make_record(step, 7, 1, 100'000));
  }
  EXPECT_EQ(steps_and_sets().size(), 20U);
  EXPECT_TRUE(reader().is_kept());
  {
    const auto again = start([](RecorderOptions& options) {
      options.max_bytes = kMax;
      options.takes_traced = false;
    });
    EXPECT_EQ(again->max_bytes(), 0U);
    EXPECT_TRUE(again->takes_traced());
    add(*again, make_record(21, 7, 1, 100'000));
  }
  EXPECT_EQ(steps_and_sets().size(), 21U);
}

TEST_F(BoundTest, WithoutAHistoryOnlyRecordsOfPromptsAreKept) {
  {
    const auto recorder = start([](RecorderOptions& options) { options.takes_traced = false; });
    EXPECT_FALSE(recorder->takes_traced());
    for (std::uint64_t step = 1; step <= 3; ++step) {
      add(*recorder, make_record(step, 7, 1));
      add(*recorder, make_record(step, 7, 1, 64, 2));
    }
  }
  EXPECT_EQ(steps_and_sets(), (std::set<std::pair<std::uint64_t, int>>{{1, 2}, {2, 2}, {3, 2}}));
  EXPECT_FALSE(reader().is_kept());
}

}  // namespace
}  // namespace tt::record

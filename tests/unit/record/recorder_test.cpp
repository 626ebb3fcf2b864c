#include "tensor_tracer/record/recorder.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <tuple>

#include "tensor_tracer/record/recording.h"
#include "tests/unit/record/recorder_fixture.h"

namespace tt::record {
namespace {

using Pairs = std::vector<std::pair<std::uint64_t, int>>;

TEST_F(RecorderTest, WhatIsWrittenIsReadBackByteForByte) {
  std::vector<Made> made;
  {
    const auto recorder = start();
    for (std::uint64_t step = 1; step <= 3; ++step) {
      made.push_back(make_record(step, 7, 1, 40'000 + 4 * step));
      add(*recorder, made.back());
    }
  }
  Recording recording = reader();
  std::size_t at = 0;
  recording.frames({.run = kRun}, [&](const Frame& frame) {
    EXPECT_EQ(frame.record, *made.at(at).bytes);
    ++at;
    return true;
  });
  EXPECT_EQ(at, 3U);
  const auto runs = recording.runs();
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].run, kRun);
  EXPECT_EQ(runs[0].id, "8f0c00000000abcd");
  EXPECT_EQ(runs[0].facts, kFacts);
  EXPECT_EQ(runs[0].first_step, 1U);
  EXPECT_EQ(runs[0].last_step, 3U);
  EXPECT_EQ(runs[0].first_frame_step, 1U);
  EXPECT_EQ(recording.count_frames(runs[0].run), 3U);
}

TEST_F(RecorderTest, QueriesByPointLayerStepEntryAndCursor) {
  {
    const auto recorder = start();
    for (std::uint64_t step = 1; step <= 4; ++step) {
      for (std::uint16_t layer = 1; layer <= 3; ++layer) {
        add(*recorder, make_record(step, 7, layer));
        add(*recorder, make_record(step, 4, layer));
      }
    }
  }
  Recording recording = reader();
  EXPECT_EQ(steps_and_layers(recording, {}).size(), 24U);
  EXPECT_EQ(
      steps_and_layers(recording, {.first_step = 2, .last_step = 3, .point = 4, .layers = {{2}}}),
      (Pairs{{2, 2}, {3, 2}}));
  EXPECT_EQ(steps_and_layers(recording, {.last_step = 1, .entry = 7}),
            (Pairs{{1, 1}, {1, 2}, {1, 3}}));
  Cursor last;
  recording.frames({.run = kRun, .point = 7}, [&](const Frame& frame) {
    last = frame.at;
    return frame.at.step < 4;
  });
  EXPECT_EQ(steps_and_layers(recording, {.point = 7, .after = last}), (Pairs{{4, 2}, {4, 3}}));
  EXPECT_TRUE(steps_and_layers(recording, {.point = 5}).empty());
}

TEST_F(RecorderTest, StepsComeBackAsTheyWereSaid) {
  const json step = {{"step", 7},
                     {"loss", 3.25},
                     {"consumed_tokens", 24576},
                     {"grad_norm", "NaN"},
                     {"lr", "-Infinity"}};
  {
    const auto recorder = start();
    recorder->add_step(kRun, {{"step", 6}, {"loss", 4.0}}, 1);
    recorder->add_step(kRun, step, 2);
    recorder->add_step(kRun, {{"step", -1}, {"loss", 4.0}}, 1);
  }
  Recording recording = reader();
  const auto all = recording.steps(kRun, 0, 100, 100);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[1].params["loss"], 3.25);
  EXPECT_EQ(all[1].params["consumed_tokens"], 24576);
  EXPECT_TRUE(all[1].params["consumed_tokens"].is_number_integer());
  EXPECT_TRUE(std::isnan(all[1].params["grad_norm"].get<double>()));
  EXPECT_EQ(all[1].params["lr"], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(all[1].time_ns, 2U);
  const auto one = recording.steps(kRun, 0, 100, 1);
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0].step, 7U);
}

TEST_F(RecorderTest, NoStepsAreNone) {
  const auto recorder = start();
  recorder->add_step(kRun, {{"step", 3}, {"loss", 0.5}}, 1);
  recorder->finish();
  EXPECT_EQ(reader().steps(kRun, 0, INT64_MAX, 1).size(), 1U);
  EXPECT_TRUE(reader().steps(kRun, 0, INT64_MAX, 0).empty());
}

TEST_F(RecorderTest, EventsHaveACursor) {
  {
    const auto recorder = start();
    for (int i = 0; i < 3; ++i) {
      recorder->add_event({.run = kRun,
                           .time_ns = 5,
                           .step = 12,
                           .kind = "control.pause",
                           .session = "v" + std::to_string(i),
                           .who = "Ada",
                           .detail = {{"ranks", 2}}});
    }
  }
  Recording recording = reader();
  const auto first = recording.events({.limit = 2});
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first[1].second.session, "v1");
  EXPECT_EQ(first[1].second.detail, (json{{"ranks", 2}}));
  const auto rest = recording.events({.after = first[1].first, .limit = 10});
  ASSERT_EQ(rest.size(), 1U);
  EXPECT_EQ(rest[0].second.who, "Ada");
}

TEST_F(RecorderTest, EventsThatAreDataAreAskedForByTheirKind) {
  {
    const auto recorder = start();
    recorder->add_event({.run = kRun, .step = 1, .kind = "interventions", .detail = {{"a", 1}}});
    for (std::uint64_t step = 1; step <= 3; ++step) {
      recorder->add_event(saved(step, 1000));
      recorder->add_event({.run = kRun, .step = step, .kind = "applied", .detail = {}});
    }
    recorder->add_event({.run = 7, .step = 2, .kind = "plan", .detail = {}});
  }
  Recording recording = reader();
  EXPECT_EQ(recording.events({.limit = 9}).size(), 2U);
  EXPECT_EQ(recording.events({.limit = 9, .kind = "applied"}).size(), 3U);
  EXPECT_EQ(recording.events({.limit = 9, .max_bytes = 2100, .kind = "saved"}).size(), 2U);
  EXPECT_EQ(recording.events({.limit = 9, .max_bytes = 1, .kind = "saved"}).size(), 1U);
  std::string kinds;
  for (const TrainerEvent& event : recording.trainer_events(kRun))
    kinds += std::to_string(event.step) + event.kind.front();
  EXPECT_EQ(kinds, "1i1s1a2s2a3s3a");
  EXPECT_EQ(recording.event_detail(1), (json{{"a", 1}}));
  EXPECT_EQ(recording.event_detail(99), json());
}

TEST_F(RecorderTest, EventsThatAreDataAreDroppedWhereTheDiskIsSlow) {
  const auto recorder = start([](RecorderOptions& options) {
    options.queue_bytes = 5000;
    options.commit_interval = std::chrono::hours(1);
  });
  for (std::uint64_t step = 1; step <= 4; ++step) {
    recorder->add_event(saved(step, 2000));
    recorder->add_event({.run = kRun, .step = step, .kind = "log", .detail = {}});
  }
  EXPECT_EQ(recorder->counters().dropped_lines, 2U);
  recorder->finish();
  Recording recording = reader();
  EXPECT_EQ(recording.trainer_events(kRun).size(), 2U);
  EXPECT_EQ(recording.events({.limit = 9}).size(), 4U);
}

TEST_F(RecorderTest, StepsAndAuditLinesAreBoundedWhereTheDiskDoesNotAnswer) {
  constexpr std::size_t kMaxSteps = 100'000;
  const auto recorder =
      start([](RecorderOptions& options) { options.commit_interval = std::chrono::hours(1); });
  recorder->add_event(saved(1, 2000));                     // has a bound of its own
  for (std::uint64_t step = 2; step <= kMaxSteps; ++step)  // the run itself waits, too
    recorder->add_step(kRun, {{"step", step}, {"loss", 1.5}}, 1);
  EXPECT_EQ(recorder->counters().dropped_lines, 0U);
  recorder->add_event({.run = kRun, .step = 1, .kind = "log", .detail = {}});
  EXPECT_EQ(recorder->counters().dropped_lines, 1U);
  recorder->add_step(kRun, {{"step", kMaxSteps + 1}, {"loss", 1.5}}, 1);
  EXPECT_EQ(recorder->counters().dropped_lines, 2U);
  recorder->finish();
  Recording recording = reader();
  EXPECT_TRUE(recording.events({.limit = 9}).empty());
  EXPECT_EQ(recording.steps(kRun, kMaxSteps - 4, kMaxSteps + 9, 1000).size(), 5U);
}

TEST_F(RecorderTest, OfEachKeyTheLatestRecordOfAPlan) {
  const auto made = [](std::uint64_t step, std::uint32_t plan, std::uint32_t entry) {
    Made record = make_record(step, 7, 1);
    record.header.plan = plan;
    record.header.entry = entry;
    return record;
  };
  {
    const auto recorder = start();
    for (const auto& [step, plan, entry] :
         {std::tuple{1, 1, 0}, {2, 1, 0}, {2, 1, 1}, {3, 2, 0}, {4, 2, 0}, {3, 2, 0}})
      add(*recorder, made(step, plan, entry));
  }
  Recording recording = reader();
  const auto ids = [&](std::uint64_t last_step, std::optional<std::uint32_t> plan) {
    FrameQuery query{.run = kRun, .last_step = last_step};
    query.plan = plan;
    query.only_latest = true;
    std::vector<std::int64_t> out;
    recording.frames(query, [&](const Frame& frame) {
      out.push_back(frame.at.id);
      return true;
    });
    return out;
  };
  EXPECT_EQ(ids(9, {}), (std::vector<std::int64_t>{3, 5}));
  EXPECT_EQ(ids(9, 1), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(ids(3, 2), (std::vector<std::int64_t>{6})) << "the later one of a step done twice";
  EXPECT_EQ(ids(1, 1), (std::vector<std::int64_t>{1}));
}

TEST_F(RecorderTest, FilterByPointLayerAndStep) {
  {
    const auto recorder = start([](RecorderOptions& options) {
      options.filter.points = {"MLP1"};
      options.filter.layers = {1, 2};
      options.filter.every = 2;
    });
    for (std::uint64_t step = 1; step <= 4; ++step) {
      for (const std::uint16_t point : {4, 7})
        for (std::uint16_t layer = 0; layer <= 3; ++layer)
          add(*recorder, make_record(step, point, layer));
    }
  }
  Recording recording = reader();
  EXPECT_EQ(steps_and_layers(recording, {}),
            (Pairs{{2, 0}, {2, 1}, {2, 2}, {4, 0}, {4, 1}, {4, 2}}))
      << "and points without layers";
  EXPECT_EQ(steps_and_layers(recording, {.point = 4}).size(), 6U);
}

TEST_F(RecorderTest, AFullQueueDropsTheOldestAndCounts) {
  const auto recorder = start([](RecorderOptions& options) {
    options.queue_bytes = 1000;
    options.commit_interval = std::chrono::hours(1);
  });
  for (std::uint64_t step = 1; step <= 10; ++step) add(*recorder, make_record(step, 7, 1, 300));
  EXPECT_EQ(recorder->counters().dropped, 8U);
  recorder->finish();
  EXPECT_EQ(recorder->counters().records, 2U);
  Recording recording = reader();
  EXPECT_EQ(steps_and_layers(recording, {}), (Pairs{{9, 1}, {10, 1}}));
}

TEST_F(RecorderTest, HistoryIsReadWhileItIsWritten) {
  for (const char* vfs : {"", "unix-dotfile"}) {  // the second one has no shared memory
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    const auto recorder = start([&](RecorderOptions& options) {
      options.commit_interval = std::chrono::milliseconds(1);
      options.vfs = vfs;
    });
    add(*recorder, make_record(1, 7, 1));
    while (recorder->counters().records < 1) std::this_thread::yield();
    std::promise<std::size_t> seen;
    recorder->read(
        [&](Recording& recording) { seen.set_value(steps_and_layers(recording, {}).size()); });
    EXPECT_EQ(seen.get_future().get(), 1U) << vfs;
  }
}

TEST_F(RecorderTest, AReaderThatIsStillOpenLeavesTheFileWhole) {
  const auto recorder = start();
  add(*recorder, make_record(1, 7, 1));
  while (recorder->counters().records < 1) std::this_thread::yield();
  Recording open = reader();
  EXPECT_EQ(open.count_frames(kRun), 1U);
  add(*recorder, make_record(2, 7, 1));
  recorder->finish();
  fs::copy_file(path(), folder_ + "/copy.ttrec");
  auto copy = Recording::open(folder_ + "/copy.ttrec");
  ASSERT_TRUE(copy.ok());
  EXPECT_EQ(copy.value().count_frames(kRun), 2U);
  EXPECT_EQ(open.count_frames(kRun), 2U);
}

TEST_F(RecorderTest, AFileThatItsHubHasForItselfIsNotReadAsItIsHalfWritten) {
  start();
  SQLite::Database hub(path(), SQLite::OPEN_READWRITE);
  hub.exec("BEGIN EXCLUSIVE");
  const auto refused = Recording::open(path());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "recording_in_use");
  EXPECT_EQ(refused.error().where, path());
}

TEST_F(RecorderTest, WhatWasAskedIsLetGoByTheEnd) {
  for (const char* vfs : {"", "unix-dotfile"}) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    const auto recorder = start([&](RecorderOptions& options) { options.vfs = vfs; });
    const auto asked = std::make_shared<int>();
    std::promise<void> goes_on;
    std::promise<void> begun;
    recorder->read([&](Recording&) {
      begun.set_value();
      goes_on.get_future().wait();
    });
    begun.get_future().wait();
    recorder->read([asked](Recording&) {});
    std::thread ends([&] { recorder->finish(); });
    goes_on.set_value();
    ends.join();
    recorder->read([asked](Recording&) {});
    EXPECT_EQ(asked.use_count(), 1) << vfs;
  }
}

TEST_F(RecorderTest, NobodyElseReadsTheFileOrWhatStandsBesideIt) {
  const auto recorder = start();
  add(*recorder, make_record(1, 7, 1));
  while (recorder->counters().records < 1) std::this_thread::yield();
  std::size_t files = 0;
  for (const auto& file : fs::directory_iterator(folder_)) {
    const fs::perms all = file.status().permissions();
    EXPECT_EQ(all, fs::perms::owner_read | fs::perms::owner_write) << file.path();
    ++files;
  }
  EXPECT_GE(files, 2U) << "a log";
}

TEST_F(RecorderTest, AFileThatWasLeftIsGoneOnWith) {
  for (std::uint64_t step = 1; step <= 2; ++step) {
    const auto recorder = start();
    add(*recorder, make_record(step, 7, 1));
  }
  Recording recording = reader();
  EXPECT_EQ(steps_and_layers(recording, {}).size(), 2U);
  EXPECT_EQ(recording.runs().size(), 1U);
}

TEST_F(RecorderTest, WhatCannotBeARecordingIsRefused) {
  const auto refused = [](const std::string& path) {
    RecorderOptions options;
    options.path = path;
    const auto opened = Recorder::open(std::move(options));
    EXPECT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().where, path);
    return opened.error().message;
  };
  EXPECT_NE(refused(folder_ + "/no/such/run.ttrec").find("No such file"), std::string::npos);
  std::ofstream(path()) << std::string(10'000, 'x');
  EXPECT_NE(refused(path()).find("not a database"), std::string::npos);
  EXPECT_FALSE(Recording::open(path()).ok());
  fs::remove(path());
  SQLite::Database(path(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE).exec("CREATE TABLE t (a)");
  EXPECT_NE(refused(path()).find("no recording"), std::string::npos);
  EXPECT_FALSE(Recording::open(path()).ok());
  fs::remove(path());
  start();
  SQLite::Database(path(), SQLite::OPEN_READWRITE).exec("UPDATE meta SET value = '99'");
  EXPECT_NE(refused(path()).find("99"), std::string::npos);
  const base::Error later = Recording::open(path()).error();
  EXPECT_EQ(later.code, "unsupported_version");
  EXPECT_EQ(later.remedy, "use a newer version of Tensor Tracer");
  EXPECT_EQ(later.where, path());
  EXPECT_FALSE(Recording::open(folder_ + "/absent.ttrec").ok());
}

}  // namespace
}  // namespace tt::record

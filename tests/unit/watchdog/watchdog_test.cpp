#include "tensor_tracer/watchdog/watchdog.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "tensor_tracer/base/thread_stacks.h"
#include "tensor_tracer/comm/world.h"
#include "tensor_tracer/watchdog/flight_record.h"

namespace tt::watchdog {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using comm::ProcessGroup;
using testing::ElementsAre;
using testing::HasSubstr;

std::string folder_of_test() {
  const auto* const info = testing::UnitTest::GetInstance()->current_test_info();
  const fs::path path =
      fs::path(testing::TempDir()) / (std::string(info->name()) + "_" + std::to_string(::getpid()));
  EXPECT_TRUE(RankBoard::make(path.string()));
  return path.string();
}

/// What the watchdogs of two ranks did; written by their threads, read when they have ended.
struct Seen {
  std::optional<Alarm> alarm[2];
  bool is_reporter[2] = {false, false};
  std::atomic<bool> has_ended[2] = {false, false};
  bool all_ended() const { return has_ended[0] && has_ended[1]; }
  bool none_ended() const { return !has_ended[0] && !has_ended[1]; }
};

WatchdogOptions options(const std::string& folder, int rank, Seen& seen,
                        std::chrono::duration<double> timeout = 300ms) {
  return {.folder = folder,
          .ranks = 2,
          .timeout = timeout,
          .first_timeout = timeout,
          .name_of = [](int one) { return "rank " + std::to_string(one); },
          .record =
              [&seen, rank](const Alarm& alarm, const RankStates&, bool is_reporter) {
                seen.alarm[rank] = alarm;
                seen.is_reporter[rank] = is_reporter;
              },
          .end = [&seen, rank] { seen.has_ended[rank] = true; }};
}

/// Two ranks with logs and watchdogs; `late` is what rank 1 does before it comes to the barrier.
void run_two(Seen& seen, const std::function<void(const ProcessGroup&)>& late) {
  const std::string folder = folder_of_test();
  comm::CollectiveLog logs[2] = {comm::CollectiveLog(0), comm::CollectiveLog(1)};
  comm::run_local(2, [&](const ProcessGroup& world) {
    comm::CollectiveLog& log = logs[world.rank()];
    world.record_into(log);
    const ProcessGroup group = world.split(0, world.rank(), "tensor");
    log.begin_step(7);
    const Watchdog watchdog(options(folder, world.rank(), seen), log);
    group.barrier();
    if (world.rank() == 1) late(world);
    group.barrier();
  });
  fs::remove_all(folder);
}

TEST(Watchdog, NamesTheRankThatDoesNotCome) {
  Seen seen;
  run_two(seen, [&](const ProcessGroup&) {
    for (int i = 0; i < 400 && !seen.all_ended(); ++i) std::this_thread::sleep_for(25ms);
  });
  EXPECT_TRUE(seen.all_ended());
  ASSERT_TRUE(seen.alarm[0] && seen.alarm[1]);
  EXPECT_TRUE(seen.is_reporter[0] && !seen.is_reporter[1]);
  EXPECT_THAT(seen.alarm[0]->reason,
              HasSubstr("rank 1 did not arrive at barrier of 0 bytes, number 2 of group tensor "
                        "(ranks 0, 1), in step 7; rank 0 has waited for "));
  EXPECT_EQ(seen.alarm[1]->reason, seen.alarm[0]->reason);
  EXPECT_EQ(seen.alarm[1]->reporter, 0);
}

TEST(Watchdog, WaitsForARankThatWorks) {
  Seen seen;
  run_two(seen, [](const ProcessGroup& world) {
    const comm::SoloWork work(world, "writes the model");
    std::this_thread::sleep_for(3s);
  });
  EXPECT_TRUE(seen.none_ended());
  EXPECT_FALSE(seen.alarm[0] || seen.alarm[1]);
}

TEST(Watchdog, AFailureReachesTheOtherRank) {
  Seen seen;
  const std::string folder = folder_of_test();
  comm::CollectiveLog logs[2] = {comm::CollectiveLog(0), comm::CollectiveLog(1)};
  comm::run_local(2, [&](const ProcessGroup& world) {
    world.record_into(logs[world.rank()]);
    Watchdog watchdog(options(folder, world.rank(), seen, 60s), logs[world.rank()]);
    world.barrier();
    if (world.rank() == 1) watchdog.fail("no memory");
    world.barrier();
  });
  ASSERT_TRUE(seen.alarm[0] && seen.alarm[1]);
  EXPECT_EQ(seen.alarm[0]->reason, "no memory");
  EXPECT_TRUE(seen.is_reporter[1] && !seen.is_reporter[0]);
  EXPECT_TRUE(seen.none_ended());
  fs::remove_all(folder);
}

TEST(Watchdog, TheLastRankRemovesTheFolder) {
  Seen seen;
  const std::string folder = folder_of_test();
  comm::CollectiveLog first(0), second(1);
  {
    const Watchdog one(options(folder, 0, seen), first), other(options(folder, 1, seen), second);
    EXPECT_TRUE(fs::exists(folder + "/rank-1.json"));
  }
  EXPECT_FALSE(fs::exists(folder));
}

TEST(CollectiveLog, KeepsTheLastCallsOfAllGroups) {
  comm::CollectiveLog logs[2] = {comm::CollectiveLog(0), comm::CollectiveLog(1)};
  comm::run_local(2, [&](const ProcessGroup& world) {
    comm::CollectiveLog& log = logs[world.rank()];
    world.record_into(log);
    const ProcessGroup part = world.split(0, -world.rank(), "tensor");
    log.begin_step(3);
    at::Tensor tensor = at::ones({4});
    for (int i = 0; i < 2000; ++i) part.all_reduce(tensor);
    comm::Work work = world.broadcast_bytes(at::zeros({8}, at::kByte), 0);
    work.wait();
    world.verify_sequence();
  });
  for (const comm::CollectiveLog& log : logs) {
    const auto groups = log.groups();
    ASSERT_EQ(groups.size(), 2U);
    EXPECT_EQ(groups[1].path, "world/tensor.0");
    EXPECT_THAT(groups[1].ranks, ElementsAre(1, 0));
    EXPECT_EQ(groups[1].calls, 2000U);
    EXPECT_EQ(groups[0].calls, 2U);
    const auto calls = log.calls();
    ASSERT_EQ(calls.size(), comm::CollectiveLog::kCalls);
    EXPECT_STREQ(calls.back().operation, "broadcast_bytes");
    EXPECT_EQ(calls.back().bytes, 8U);
    EXPECT_GT(calls.back().end_ns, 0);
    EXPECT_EQ(calls[calls.size() - 2].sequence, 2000U);
    EXPECT_EQ(calls[calls.size() - 2].bytes, 16U);
    EXPECT_EQ(calls[calls.size() - 2].step, 3);
    EXPECT_EQ(calls.front().number + comm::CollectiveLog::kCalls - 1, calls.back().number);
    EXPECT_FALSE(log.wait());
  }
}

TEST(FlightRecord, ItsFilesCanBeRead) {
  base::prepare_thread_stacks();
  const std::string folder = folder_of_test();
  EXPECT_EQ(flight_record_folder(folder), folder + "/flight-record");
  comm::CollectiveLog log(0);
  log.add_group({"world", "world", {0, 1}});
  log.begin(0, {"all_reduce sum", 64, static_cast<int>(at::kFloat)});
  RankStates states(2);
  states[0] = read_state(log);
  const auto failures = write_flight_record({.folder = folder + "/flight-record",
                                             .alarm = {.reason = "late", .reporter = 0},
                                             .configuration = {{"options", "x"}},
                                             .log_lines = "step 1\n",
                                             .states = states,
                                             .hub_log = folder + "/absent"},
                                            log);
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_THAT(failures[0], HasSubstr("hub.log: "));
  const auto read = [&](const std::string& name) {
    std::ifstream file(folder + "/flight-record/" + name);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const auto calls = nlohmann::json::parse(read("rank-00000-collectives.json"));
  EXPECT_EQ(calls["reason"], "late");
  EXPECT_EQ(calls["wait"]["operation"], "all_reduce sum");
  EXPECT_TRUE(calls["collectives"][0]["ms"].is_null());
  EXPECT_EQ(calls["collectives"][0]["dtype"], "Float");
  EXPECT_EQ(nlohmann::json::parse(read("ranks.json"))[1], nullptr);
  EXPECT_THAT(read("rank-00000-stacks.txt"), HasSubstr("thread " + std::to_string(::getpid())));
  EXPECT_EQ(read("rank-00000-log.txt"), "step 1\n");
  EXPECT_EQ(flight_record_folder(folder), folder + "/flight-record-2");
  fs::remove_all(folder);
}

}  // namespace
}  // namespace tt::watchdog

#include "tensor_tracer/record/run_catalog.h"

#include <fstream>

#include "tensor_tracer/base/run_dir_lock.h"
#include "tests/unit/record/recorder_fixture.h"

namespace tt::record {
namespace {

// Folders of runs under folder_, each with one run whose id repeats one digit.
class RunCatalogTest : public RecorderTest {
 protected:
  static std::string id_of(char digit) { return std::string(16, digit); }
  std::string run_dir(char digit) const { return folder_ + "/run_" + digit; }
  std::string recording(char digit) const { return run_dir(digit) + "/run.ttrec"; }

  void make_run(char digit, const std::string& phase, std::size_t bytes = 1000,
                const std::string& file = "") {
    fs::create_directories(run_dir(digit));
    write(run_dir(digit) + "/hub.json", json({{"run_id", id_of(digit)}}));
    RecorderOptions options;
    options.path = file.empty() ? recording(digit) : file;
    auto recorder = Recorder::open(std::move(options)).value();
    json facts = kFacts;
    facts["id"] = id_of(digit);
    facts["name"] = std::string("name ") + digit;
    facts["start_time"] = std::string("2026-11-2") + digit;
    facts["train_iters"] = 100;
    recorder->set_run(facts);
    const std::uint64_t run = run_number(id_of(digit));
    recorder->add_step(run, {{"step", 1}, {"loss", 5.5}}, 1);
    recorder->add_step(run, {{"step", 2}, {"loss", 4.25}}, 2);
    recorder->add_step(run, {{"step", 3}, {"lr", 0.5}}, 3);
    recorder->add_event({.run = run, .step = 3, .kind = "state", .detail = {{"phase", phase}}});
    recorder->add_event({.run = run, .kind = "log", .detail = {{"x", std::string(bytes, 'x')}}});
  }

  static void write(const std::string& path, const json& object) {
    std::ofstream(path) << object.dump();
  }
};

TEST_F(RunCatalogTest, StatesStepsAndLosses) {
  make_run('3', "training");
  make_run('1', "finished");
  make_run('2', "stopped");
  make_run('4', "paused");
  make_run('5', "lost");
  fs::create_directories(folder_ + "/no_run");
  write(folder_ + "/no_run/x.ttrec", {});
  const auto lock = base::lock_run_dir(run_dir('4'));
  std::string found;
  for (const CatalogRun& run : list_runs(folder_)) {
    found += run.id.substr(0, 1) + run.state + ' ';
    EXPECT_EQ(run.step, 3U);
    EXPECT_EQ(run.train_iters, 100U);
    EXPECT_EQ(run.loss, 4.25);
    EXPECT_GT(run.bytes, 10'000U);
    EXPECT_FALSE(run.is_kept);
    EXPECT_EQ(run.is_in_use, run.id == id_of('4'));
  }
  EXPECT_EQ(found, "1finished 2stopped 3lost 4running 5lost ");
  EXPECT_TRUE(list_runs(folder_ + "/absent").empty());
}

TEST_F(RunCatalogTest, ARunIsFoundByTheFirstCharactersOfItsId) {
  make_run('1', "finished");
  make_run('2', "finished");
  EXPECT_EQ(find_run(folder_, "22").value().id, id_of('2'));
  EXPECT_EQ(find_run(folder_, "3").error().code, "no_run");
  EXPECT_EQ(find_run(folder_, "").error().code, "no_run");
}

TEST_F(RunCatalogTest, ARunningRunAndAKeptOneAreNotRemoved) {
  make_run('1', "training");
  make_run('2', "finished");
  write(run_dir('2') + "/spike-7.ttrec", {});
  {
    const auto lock = base::lock_run_dir(run_dir('1'));
    const base::Status refused = remove_run(find_run(folder_, "1").value(), true);
    EXPECT_EQ(refused.error().code, "run_in_use");
  }
  ASSERT_TRUE(keep_run(find_run(folder_, "2").value()).ok());
  const CatalogRun kept = find_run(folder_, "2").value();
  EXPECT_TRUE(kept.is_kept);
  EXPECT_EQ(remove_run(kept, false).error().code, "run_kept");
  EXPECT_EQ(list_runs(folder_).size(), 2U);
  EXPECT_TRUE(remove_run(kept, true).ok());
  EXPECT_TRUE(remove_run(find_run(folder_, "1").value(), false).ok());
  EXPECT_TRUE(fs::is_empty(folder_)) << "the directories go, too";
}

TEST_F(RunCatalogTest, FilesOfOthersStay) {
  make_run('1', "finished");
  write(run_dir('1') + "/notes.txt", "mine");
  EXPECT_TRUE(remove_run(find_run(folder_, "1").value(), false).ok());
  EXPECT_EQ(std::distance(fs::directory_iterator(run_dir('1')), {}), 1);
}

TEST_F(RunCatalogTest, ARecordingInAnotherFolderIsFoundAndRemoved) {
  const std::string elsewhere = folder_ + "_elsewhere";
  fs::create_directories(elsewhere);
  make_run('1', "finished", 1000, elsewhere + "/run.ttrec");
  write(run_dir('1') + "/run.json", json({{"run_id", id_of('1')}, {"record", elsewhere}}));
  const CatalogRun run = find_run(folder_, "1").value();
  EXPECT_EQ(run.recording, elsewhere + "/run.ttrec");
  EXPECT_TRUE(run.is_elsewhere());
  EXPECT_TRUE(remove_run(run, false).ok());
  EXPECT_TRUE(fs::is_empty(elsewhere));
  EXPECT_TRUE(fs::is_empty(folder_));
  fs::remove(elsewhere);
}

TEST_F(RunCatalogTest, TheSpikeRecordersFilesCountForTheRun) {
  make_run('1', "finished");
  make_run('2', "finished");
  const std::uint64_t before = find_run(folder_, "1").value().bytes;
  const std::uint64_t other = find_run(folder_, "2").value().bytes;
  std::ofstream(run_dir('1') + "/spike-7.ttrec") << std::string(3'000'000, 'x');
  std::ofstream(run_dir('1') + "/spike-90.ttrec") << std::string(1'000'000, 'x');
  EXPECT_EQ(find_run(folder_, "1").value().bytes, before + 4'000'000);
  EXPECT_EQ(find_run(folder_, "2").value().bytes, other);
  EXPECT_FALSE(find_run(folder_, "1").value().is_elsewhere());
  const Excess excess = find_excess(folder_, 3'500'000, 5);
  EXPECT_EQ(excess.bytes, before + other + 4'000'000);
  ASSERT_EQ(excess.runs.size(), 1U);
  EXPECT_EQ(excess.runs[0].id, id_of('1'));
}

TEST_F(RunCatalogTest, TheLargestRunsThatAreNotKeptAreNamed) {
  make_run('1', "finished", 900'000);
  make_run('2', "finished", 500'000);
  make_run('3', "finished", 700'000);
  make_run('4', "finished", 600'000);
  EXPECT_EQ(find_excess(folder_, 1 << 30, 5).bytes, 0U);
  ASSERT_TRUE(keep_run(find_run(folder_, "1").value()).ok());
  const Excess excess = find_excess(folder_, 3'200'000, 5);
  EXPECT_GT(excess.bytes, 3'200'000U);
  ASSERT_EQ(excess.runs.size(), 1U);
  EXPECT_EQ(excess.runs[0].id, id_of('3'));
  EXPECT_EQ(find_excess(folder_, 1, 2).runs.size(), 2U);
}

}  // namespace
}  // namespace tt::record

#include "tensor_tracer/checkpoint/checkpoint_writer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace tt::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class CheckpointWriterTest : public testing::Test {
 protected:
  CheckpointWriterTest()
      : folder_(fs::temp_directory_path() / ("tt_writer_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~CheckpointWriterTest() override { fs::remove_all(folder_); }

  static std::vector<FileContents> files(int rank, double value) {
    return {{"model-" + std::to_string(rank) + ".safetensors",
             {{"w", at::full({64}, value)}},
             {{"format", "pt"}}}};
  }
  base::Result<SavedCheckpoint> save(CheckpointWriter& writer, std::int64_t step,
                                     std::optional<double> valid_loss = {}) {
    auto hidden = writer.prepare(step);
    if (!hidden) return hidden.error();
    writer.start(hidden.value(), files(0, static_cast<double>(step)),
                 {step, ++time_, {}, {}, valid_loss});
    return writer.wait();
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_))
      found.push_back(entry.path().filename());
    std::ranges::sort(found);
    return found;
  }
  const fs::path folder_;
  double time_ = 0;  // of the last save
};

TEST_F(CheckpointWriterTest, ASaveOfSeveralRanksHasAllFilesAndTheFacts) {
  CheckpointWriter first(folder_.string(), 0, 2, {}), second(folder_.string(), 1, 2, {});
  const auto hidden = first.prepare(3);
  ASSERT_TRUE(hidden.ok());
  first.start(hidden.value(), files(0, 1), {3, 1.5, {}, {{"a", 1}}});
  EXPECT_FALSE(first.has_ended());  // it waits for the other rank
  second.start(hidden.value(), files(1, 2), {3, 0, {}, {}});
  ASSERT_TRUE(second.wait().ok());
  const auto saved = first.wait();
  ASSERT_TRUE(saved.ok()) << to_string(saved.error());
  EXPECT_THAT(names(), ElementsAre("step_00000003"));
  const auto manifest = read_manifest(saved.value().path);
  ASSERT_TRUE(manifest.ok()) << to_string(manifest.error());
  EXPECT_EQ(manifest.value().step, 3);
  EXPECT_EQ(manifest.value().facts, (nlohmann::json{{"a", 1}}));
  ASSERT_THAT(manifest.value().files, SizeIs(2));
  EXPECT_EQ(saved.value().bytes, manifest.value().files[0].bytes + manifest.value().files[1].bytes);
  EXPECT_TRUE(verify_files(saved.value().path, manifest.value()).ok());
}

TEST_F(CheckpointWriterTest, AWriterGivesUpARankThatNeverComes) {
  CheckpointWriter first(folder_.string(), 0, 2, {});
  first.start(first.prepare(3).value(), files(0, 1), {3, 0, {}, {}});
}

TEST_F(CheckpointWriterTest, TheNewestStayAndHiddenFoldersGo) {
  CheckpointWriter writer(folder_.string(), 0, 1, {.last = 2});
  fs::create_directories(folder_ / ".saving-step_00000001-00000000");
  std::ofstream(folder_ / "notes.txt") << "a file of the user";
  for (const std::int64_t step : {10, 20, 30}) ASSERT_TRUE(save(writer, step).ok());
  EXPECT_THAT(names(), ElementsAre("notes.txt", "step_00000020", "step_00000030"));
  // A run that was resumed from step 20 saves step 25 after step 30 was saved.
  ASSERT_TRUE(save(writer, 25).ok());
  EXPECT_THAT(names(), ElementsAre("notes.txt", "step_00000025", "step_00000030"));
  EXPECT_THAT(find_checkpoints(folder_.string()),
              ElementsAre(HasSubstr("step_00000025"), HasSubstr("step_00000030")));
}

TEST_F(CheckpointWriterTest, TheBestStayBesidesTheNewest) {
  CheckpointWriter writer(folder_.string(), 0, 1, {.last = 1, .best = 2});
  const std::pair<std::int64_t, std::optional<double>> saves[] = {
      {10, 3.0}, {20, 1.0}, {30, std::nullopt}, {40, 2.0}, {50, 4.0}, {60, std::nullopt}};
  for (const auto& [step, loss] : saves) ASSERT_TRUE(save(writer, step, loss).ok());
  EXPECT_THAT(names(), ElementsAre("step_00000020", "step_00000040", "step_00000060"));
  ASSERT_TRUE(save(writer, 70, 1.5).ok());
  EXPECT_THAT(names(), ElementsAre("step_00000020", "step_00000070"));
}

TEST_F(CheckpointWriterTest, ASecondSaveOfAStepReplacesTheFirst) {
  CheckpointWriter writer(folder_.string(), 0, 1, {});
  ASSERT_TRUE(save(writer, 10).ok());
  const auto hidden = writer.prepare(10);
  writer.start(hidden.value(), files(0, -1), {10, 2.5, {}, {}});
  const auto saved = writer.wait();
  ASSERT_TRUE(saved.ok()) << to_string(saved.error());
  EXPECT_THAT(names(), ElementsAre("step_00000010"));
  EXPECT_EQ(read_manifest(saved.value().path).value().time, 2.5);
  EXPECT_TRUE(verify_files(saved.value().path, read_manifest(saved.value().path).value()).ok());
}

TEST_F(CheckpointWriterTest, AFailedSaveLeavesTheCheckpointsAndNamesThePath) {
  CheckpointWriter writer(folder_.string(), 0, 1, {.last = 1});
  ASSERT_TRUE(save(writer, 10).ok());
  const auto hidden = writer.prepare(20);
  ASSERT_TRUE(hidden.ok());
  fs::create_directory(hidden.value() + "/model-0.safetensors.partial");  // cannot be written
  writer.start(hidden.value(), files(0, 1), {20, 0, {}, {}});
  const auto failed = writer.wait();
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(to_string(failed.error()), HasSubstr("model-0.safetensors"));
  EXPECT_THAT(names(), ElementsAre("step_00000010"));
}

TEST_F(CheckpointWriterTest, ARankThatCannotLeaveItsListFailsTheSave) {
  CheckpointWriter first(folder_.string(), 0, 2, {}), second(folder_.string(), 1, 2, {});
  const auto hidden = first.prepare(3);
  fs::create_directory(hidden.value() + "/files_of_rank_00001.json.partial");
  first.start(hidden.value(), files(0, 1), {3, 0, {}, {}});
  second.start(hidden.value(), files(1, 2), {3, 0, {}, {}});
  EXPECT_FALSE(second.wait().ok());
  EXPECT_FALSE(first.has_ended());
  first.give_up();
  const auto failed = first.wait();
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(to_string(failed.error()), HasSubstr("rank 1 left no list of its files"));
  EXPECT_THAT(names(), SizeIs(0));
}

// The newest checkpoint is found although the clock went back.
TEST_F(CheckpointWriterTest, AClockThatGoesBackLosesNoCheckpoint) {
  CheckpointWriter writer(folder_.string(), 0, 1, {.last = 1});
  ASSERT_TRUE(save(writer, 10).ok());
  time_ = -100;
  ASSERT_TRUE(save(writer, 20).ok());
  EXPECT_THAT(names(), ElementsAre("step_00000020"));
}

TEST_F(CheckpointWriterTest, AFailureOfAnotherRankFailsTheSave) {
  CheckpointWriter first(folder_.string(), 0, 2, {}), second(folder_.string(), 1, 2, {});
  const auto hidden = first.prepare(3);
  fs::create_directory(hidden.value() + "/model-1.safetensors.partial");
  second.start(hidden.value(), files(1, 2), {3, 0, {}, {}});
  EXPECT_FALSE(second.wait().ok());
  first.start(hidden.value(), files(0, 1), {3, 0, {}, {}});
  const auto failed = first.wait();
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(to_string(failed.error()), HasSubstr("rank 1 could not write"));
  EXPECT_THAT(names(), SizeIs(0));
}

// Every byte of every file is covered by a checksum.
TEST_F(CheckpointWriterTest, EveryFlippedByteIsDetected) {
  CheckpointWriter writer(folder_.string(), 0, 1, {});
  const std::string path = save(writer, 10).value().path;
  std::mt19937 random(1);
  int flips = 0;
  for (const auto& entry : fs::directory_iterator(path)) {
    const auto size = fs::file_size(entry.path());
    for (int i = 0; i < 350; ++i, ++flips) {
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      const auto at = static_cast<std::streamoff>(random() % size);
      file.seekg(at);
      const char byte = static_cast<char>(file.get());
      const auto put = [&](char value) {
        file.seekp(at);
        file.put(value);
        file.flush();
      };
      put(static_cast<char>(byte ^ static_cast<char>(1U << (random() % 8))));
      const auto manifest = read_manifest(path);
      EXPECT_FALSE(manifest.ok() && verify_files(path, manifest.value()).ok())
          << entry.path() << " byte " << at;
      put(byte);
    }
  }
  EXPECT_GE(flips, 1000);
  EXPECT_TRUE(verify_files(path, read_manifest(path).value()).ok());
}

TEST_F(CheckpointWriterTest, MissingAndTruncatedFilesAreDamage) {
  CheckpointWriter writer(folder_.string(), 0, 1, {});
  const fs::path path = save(writer, 10).value().path;
  const auto manifest = read_manifest(path.string()).value();
  fs::resize_file(path / "model-0.safetensors", 100);
  EXPECT_THAT(to_string(verify_files(path.string(), manifest).error()), HasSubstr("has 100 bytes"));
  fs::remove(path / "model-0.safetensors");
  EXPECT_EQ(verify_files(path.string(), manifest).error().code, "damaged");
  fs::remove(path / "manifest.crc32c");
  EXPECT_EQ(read_manifest(path.string()).error().code, "damaged");
  fs::remove(path / "manifest.json");
  EXPECT_EQ(read_manifest(path.string()).error().code, "not_found");
}

}  // namespace
}  // namespace tt::checkpoint

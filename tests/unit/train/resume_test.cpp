// A run that resumes from a checkpoint, on ranks that are threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tensor_tracer/checkpoint/manifest.h"
#include "tests/unit/train/tiny_run.h"

namespace tt::train {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ResumeTest : public testing::Test {
 protected:
  ResumeTest() : folder_(fs::temp_directory_path() / ("tt_resume_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~ResumeTest() override { fs::remove_all(folder_); }

  config::TrainConfig config(mesh::MeshShape shape) const {
    config::TrainConfig config = tiny_config(shape);
    config.model.hidden_dropout = config.model.attention_dropout = 0.1;
    config.model.num_query_groups = 1;  // keys and values in copies at tensor 2
    config.model.swiglu = true;
    config.micro_batch_size = 2;
    return config;
  }
  std::vector<StepReport> saved_run(mesh::MeshShape shape, std::int64_t interval) const {
    config::TrainConfig run = config(shape);
    run.checkpoint.save = folder_.string();
    run.checkpoint.save_interval = interval;
    return train(run, shape)[0].reports;
  }
  std::vector<RankResult> resumed_run(mesh::MeshShape shape, std::int64_t step) const {
    const std::string path = folder_.string() + "/" + checkpoint::checkpoint_name(step);
    return train(config(shape), shape, nullptr, [&](TrainerParts& parts, int) {
      const auto manifest = checkpoint::read_manifest(path);
      ASSERT_TRUE(manifest.ok()) << to_string(manifest.error());
      std::vector<std::string> files;
      for (const checkpoint::FileFacts& file : manifest.value().files) files.push_back(file.name);
      auto store = checkpoint::TensorStore::open(path, files);
      ASSERT_TRUE(store.ok()) << to_string(store.error());
      parts.state = std::make_shared<const checkpoint::TensorStore>(std::move(store).value());
      parts.steps_done = step;
    });
  }
  const fs::path folder_;
};

class ResumeOnMesh : public ResumeTest, public testing::WithParamInterface<mesh::MeshShape> {};

INSTANTIATE_TEST_SUITE_P(Checkpoints, ResumeOnMesh,
                         testing::Values(mesh::MeshShape{}, mesh::MeshShape{.tensor = 2},
                                         mesh::MeshShape{.data = 2},
                                         mesh::MeshShape{.tensor = 2, .data = 2}),
                         [](const auto& test) {
                           return "Tensor" + std::to_string(test.param.tensor) + "Data" +
                                  std::to_string(test.param.data);
                         });

TEST_P(ResumeOnMesh, TheSameMeshGivesTheSameBits) {
  const std::vector<StepReport> whole = saved_run(GetParam(), 3);
  for (const std::int64_t step : {3, 6}) {
    const auto resumed = resumed_run(GetParam(), step)[0].reports;
    ASSERT_EQ(resumed.size(), static_cast<std::size_t>(kSteps - step));
    for (std::size_t i = 0; i < resumed.size(); ++i) {
      const StepReport& wanted = whole[static_cast<std::size_t>(step) + i];
      EXPECT_EQ(resumed[i].step, wanted.step);
      EXPECT_EQ(resumed[i].loss, wanted.loss) << "step " << wanted.step;
      EXPECT_EQ(resumed[i].grad_norm, wanted.grad_norm) << "step " << wanted.step;
      EXPECT_EQ(resumed[i].lr, wanted.lr);
    }
  }
}

TEST_P(ResumeOnMesh, EveryOtherMeshGivesTheSameLosses) {
  const std::vector<StepReport> whole = saved_run(GetParam(), 4);
  for (const mesh::MeshShape other :
       {mesh::MeshShape{}, mesh::MeshShape{.tensor = 2}, mesh::MeshShape{.tensor = 4}}) {
    const auto resumed = resumed_run(other, 4)[0].reports;
    ASSERT_EQ(resumed.size(), 4U);
    for (std::size_t i = 0; i < resumed.size(); ++i)
      EXPECT_NEAR(resumed[i].loss, whole[4 + i].loss, 1e-12 * whole[4 + i].loss);
  }
}

// A run without a plan passes on the plan of the run before.
TEST_F(ResumeTest, TheLastStepIsSavedWithItsFactsAndWithoutAnInterval) {
  config::TrainConfig run = config({});
  run.checkpoint.save = folder_.string();
  std::vector<std::int64_t> saved;
  train(run, {}, nullptr, [&](TrainerParts& parts, int) {
    parts.checkpoint_facts = {{"run", {{"name", "a"}}}, {"plan", "that of the run before"}};
    parts.on_saved = [&](const auto& result) {
      ASSERT_TRUE(result.ok());
      saved.push_back(result.value().step);
    };
  });
  EXPECT_THAT(saved, testing::ElementsAre(kSteps));
  const auto manifest =
      checkpoint::read_manifest(folder_.string() + "/" + checkpoint::checkpoint_name(kSteps));
  ASSERT_TRUE(manifest.ok());
  EXPECT_EQ(manifest.value().facts["run"]["name"], "a");
  EXPECT_EQ(manifest.value().facts["plan"], "that of the run before");
}

// Also while the run is paused: the state is that after the last completed step.
TEST_F(ResumeTest, AViewerAsksForACheckpoint) {
  config::TrainConfig run = config({.tensor = 2});
  run.checkpoint.save = folder_.string();
  Script script;
  script.requests = {{},
                     {},
                     {{1, protocol::PauseRun{}}},
                     {{2, protocol::SaveCheckpoint{}}},
                     {},
                     {{3, protocol::ContinueRun{}}}};
  std::vector<std::int64_t> saved;
  const auto whole = train(run, {.tensor = 2}, &script, [&](TrainerParts& parts, int rank) {
    if (rank > 0) return;
    parts.on_saved = [&](const auto& result) { saved.push_back(result.value().step); };
  });
  EXPECT_THAT(saved, testing::ElementsAre(2, kSteps));
  ASSERT_EQ(script.answers.size(), 3U);
  EXPECT_EQ(script.answers[1].second, (nlohmann::json{{"step", 2}, {"ranks", 2}}));
  const auto resumed = resumed_run({.tensor = 2}, 2)[0].reports;
  ASSERT_EQ(resumed.size(), static_cast<std::size_t>(kSteps - 2));
  EXPECT_EQ(resumed.back().loss, whole[0].reports.back().loss);
}

TEST_F(ResumeTest, ARunThatSavesNothingRefusesACheckpoint) {
  Script script;
  script.requests = {{{1, protocol::SaveCheckpoint{}}}};
  train(config({}), {}, &script);
  ASSERT_EQ(script.refusals.size(), 1U);
  EXPECT_EQ(script.refusals[0].second.code, "no_checkpoints");
  EXPECT_THAT(script.refusals[0].second.remedy, HasSubstr("--save"));
}

// JSON has no number for it.
TEST_F(ResumeTest, AValidationLossThatIsNotFiniteDamagesNoManifest) {
  config::TrainConfig run = config({});
  run.checkpoint.save = folder_.string();
  run.optimizer.lr = 1e300;
  run.optimizer.clip_grad = 0;
  run.train_iters = 1;
  run.eval_interval = 1;
  const auto results = train(run, {});
  ASSERT_FALSE(std::isfinite(*results[0].reports.back().valid_loss));
  const auto path = folder_.string() + "/" + checkpoint::checkpoint_name(1);
  const auto manifest = checkpoint::read_manifest(path);
  ASSERT_TRUE(manifest.ok()) << to_string(manifest.error());
  EXPECT_FALSE(manifest.value().valid_loss.has_value());
}

TEST_F(ResumeTest, ARunWhoseLastSaveFailsEndsWithAnError) {
  config::TrainConfig run = config({});
  run.checkpoint.save = (folder_ / "absent").string();
  int errors = 0;
  const auto results = train(run, {}, nullptr, [&](TrainerParts& parts, int) {
    parts.on_saved = [&](const auto& result) { errors += result.ok() ? 0 : 1; };
  });
  EXPECT_EQ(errors, 1);
  EXPECT_EQ(results[0].reports.size(), static_cast<std::size_t>(kSteps));
  EXPECT_THAT(results[0].train_error, HasSubstr("the last checkpoint was not saved"));
}

}  // namespace
}  // namespace tt::train

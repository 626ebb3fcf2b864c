// A value that is not finite, once or again and again, on one rank: TR-9.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tensor_tracer/checkpoint/manifest.h"
#include "tensor_tracer/model/gpt.h"
#include "tests/unit/train/faulty_hooks.h"
#include "tests/unit/train/tiny_run.h"

namespace tt::train {
namespace {

using testing::HasSubstr;

std::vector<RankResult> train_with(const Fault& fault, int faulty_rank, mesh::MeshShape shape,
                                   const config::TrainConfig& config) {
  FaultyHooks good(std::nullopt), bad(fault);
  return train(config, shape, nullptr, [&](TrainerParts& parts, int rank) {
    parts.hooks = rank == faulty_rank ? &bad : &good;
  });
}

#ifdef __SANITIZE_ADDRESS__
constexpr int kTrials = 20;  // ten times as slow
#else
constexpr int kTrials = 100;
#endif

// 100 trials: classified right, on all ranks at the same step; a persistent fault by place and
// rank.
TEST(NonFinite, IsClassifiedAndNamed) {
  constexpr std::array kPaths = {"attention.qkv", "attention.value", "attention.output",
                                 "mid",           "mlp.fc1",         "mlp.activation",
                                 "output"};
  std::mt19937 random(9);
  const auto draw = [&](std::size_t below) {
    return std::uniform_int_distribution<std::size_t>(0, below - 1)(random);
  };
  for (int trial = 0; trial < kTrials; ++trial) {
    const mesh::MeshShape shape =
        trial % 2 == 0 ? mesh::MeshShape{.tensor = 2} : mesh::MeshShape{.data = 2};
    config::TrainConfig config = tiny_config(shape);
    config.train_iters = 3;
    config.eval_interval = 0;
    config.model.hidden_dropout = 0.1;
    const auto places = model::describe_model(config.model, shape.tensor).places();
    const std::string path = kPaths.at(draw(kPaths.size()));
    const int layer = static_cast<int>(draw(2)) + 1, rank = static_cast<int>(draw(2));
    const Fault fault{static_cast<std::int64_t>(draw(3)) + 1, places->key(path, layer),
                      draw(2) == 1, draw(2) == 1};
    SCOPED_TRACE(std::to_string(trial) + " " + path);
    for (const RankResult& result : train_with(fault, rank, shape, config)) {
      ASSERT_EQ(result.is_persistent, fault.is_persistent) << result.train_error;
      ASSERT_EQ(std::ssize(result.reports), fault.step);
      EXPECT_THAT(result.train_error,
                  HasSubstr("is not finite at step " + std::to_string(fault.step)));
      if (!fault.is_persistent) continue;
      const std::string found = std::string(fault.is_gradient ? "the gradient of " : "is in ") +
                                "layers[" + std::to_string(layer) + "]." + path + " on rank " +
                                std::to_string(rank);
      EXPECT_THAT(result.train_error, HasSubstr(found));
    }
  }
}

// After a transient fault, the weights before the step are a checkpoint. After a persistent one,
// the older checkpoints stay.
TEST(NonFinite, TheGoodStateIsSaved) {
  const mesh::MeshShape shape{.tensor = 2};
  for (const bool is_persistent : {false, true}) {
    const auto folder =
        std::filesystem::temp_directory_path() / ("tt_nonfinite_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
    config::TrainConfig config = tiny_config(shape);
    config.checkpoint.save = folder.string();
    const auto places = model::describe_model(config.model, shape.tensor).places();
    const Fault fault{6, places->key("mlp.fc1", 2), false, is_persistent};
    train_with(fault, 1, shape, config);
    const auto saved = checkpoint::find_checkpoints(folder.string());
    if (is_persistent) {
      EXPECT_TRUE(saved.empty());
    } else {
      ASSERT_EQ(saved.size(), 1U);
      EXPECT_TRUE(saved.front().ends_with("step_00000005"));
      EXPECT_TRUE(checkpoint::read_manifest(saved.front()).ok());
    }
    std::filesystem::remove_all(folder);
  }
}

// A weight that was damaged in memory is no fault of the step: no classification, and its state is
// not saved.
TEST(NonFinite, ADamagedWeightIsNamedBeforeTheStepIsRepeated) {
  for (const mesh::MeshShape shape : {mesh::MeshShape{.tensor = 2}, mesh::MeshShape{.data = 2}}) {
    const auto folder = std::filesystem::temp_directory_path() /
                        ("tt_damaged_weight_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
    config::TrainConfig config = tiny_config(shape);
    config.checkpoint.save = folder.string();
    const auto places = model::describe_model(config.model, shape.tensor).places();
    const Fault fault{.step = 6, .place = places->key("mlp.fc1.weight", 2), .stays = true};
    for (const RankResult& result : train_with(fault, 1, shape, config)) {
      EXPECT_EQ(result.train_error,
                "the weight layers.2.mlp.fc1.weight on rank 1 is not finite at step 6");
      EXPECT_FALSE(result.is_persistent.has_value());
      EXPECT_EQ(std::ssize(result.reports), 6);
    }
    EXPECT_TRUE(checkpoint::find_checkpoints(folder.string()).empty());
    std::filesystem::remove_all(folder);
  }
}

}  // namespace
}  // namespace tt::train

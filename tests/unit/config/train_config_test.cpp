#include "tensor_tracer/config/train_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace tt::config {
namespace {

using testing::HasSubstr;

TEST(TrainConfig, MeshTakesTheRestForData) {
  TrainConfig config;
  config.tensor_model_parallel_size = 2;
  const auto shape = check(config, 8);
  ASSERT_TRUE(shape.ok()) << to_string(shape.error());
  EXPECT_EQ(shape.value().data, 4);
  EXPECT_EQ(config.global_batch(4), 32);
}

TEST(TrainConfig, TheRateFallsToATenthUnlessToldOtherwise) {
  OptimizerConfig optimizer;
  optimizer.lr = 1e-5;
  EXPECT_DOUBLE_EQ(optimizer.last_lr(), 1e-6);
  optimizer.min_lr = 2e-6;
  EXPECT_EQ(optimizer.last_lr(), 2e-6);
}

TEST(TrainConfig, RefusesWhatDoesNotFitAndNamesAllNumbers) {
  const struct {
    std::function<void(TrainConfig&)> change;
    int world_size;
    const char* message;
  } cases[] = {
      {[](auto& c) { c.model.num_attention_heads = 3; }, 1,
       "--hidden-size: 256 is not divisible by --num-attention-heads 3"},
      {[](auto& c) {
         c.model.num_attention_heads = 4;
         c.tensor_model_parallel_size = 8;
       },
       8, "--num-attention-heads: 4 is not divisible by --tensor-model-parallel-size 8"},
      {[](auto& c) { c.model.num_query_groups = 3; }, 1,
       "--num-attention-heads: 4 is not divisible by --num-query-groups 3"},
      {[](auto& c) {
         c.model.num_attention_heads = 12;
         c.model.hidden_size = 96;
         c.model.num_query_groups = 6;
         c.tensor_model_parallel_size = 4;
       },
       4, "--num-query-groups: 6 neither divides nor is divided by"},
      {[](auto& c) {
         c.model.ffn_hidden_size = 101;
         c.tensor_model_parallel_size = 2;
       },
       2, "--ffn-hidden-size: 101 is not divisible by --tensor-model-parallel-size 2"},
      {[](auto& c) { c.tensor_model_parallel_size = 2; }, 3, "3"},
      {[](auto& c) { c.global_batch_size = 12; }, 1,
       "--global-batch-size: 12 is not divisible by --micro-batch-size"},
      {[](auto& c) { c.model.num_layers = 0; }, 1, "--num-layers: 0 is not above 0"},
      {[](auto& c) { c.model.vocab_size = 100; }, 1, "--vocab-size: 100 is less than the 256"},
      {[](auto& c) { c.train_iters = -1; }, 1, "--train-iters: -1 is not above 0"},
      {[](auto& c) { c.params_dtype = "float8"; }, 1,
       "\"float8\" is not float32 or float64 or bfloat16"},
      {[](auto& c) {
         c.bf16 = true;
         c.params_dtype = "float64";
       },
       1, "--bf16: keeps float32 weights, not float64; leave --bf16 or --params-dtype out"},
      {[](auto& c) {
         c.bf16 = true;
         c.params_dtype = "bfloat16";
       },
       1, "--bf16: keeps float32 weights, not bfloat16; leave --bf16 or --params-dtype out"},
      {[](auto& c) { c.data.split = "95"; }, 1, "--split: \"95\" is not two whole per cents"},
      {[](auto& c) { c.data.split = "95,6"; }, 1, "--split"},
      {[](auto& c) { c.tracer.tensor_tracer_wait = true; }, 1,
       "--tensor-tracer-wait: there is no page without a port; add --tensor-tracer-port 0"},
      {[](auto& c) { c.recording.record_max_bytes = 5; }, 1,
       "--record-max-bytes: 5 is neither 0 nor at least 1 MB"},
      {[](auto& c) {
         c.recording.record = "there";
         c.recording.record_layers = "4-";
       },
       1, "--record-layers: \"4-\" is not a list of layers such as 1-4,8"},
      {[](auto& c) { c.tracer.tensor_tracer_port = 70000; }, 1,
       "--tensor-tracer-port: 70000 is not in [0, 65535]"},
      {[](auto& c) { c.model.ffn_hidden_size = -4; }, 1, "--ffn-hidden-size: -4 is below 0"},
      {[](auto& c) { c.monitor.monitor_interval = 0; }, 1, "--monitor-interval: 0 is not above 0"},
      {[](auto& c) { c.export_at = "3-1"; }, 1, "--export-at: \"3-1\" is not a list of steps"},
      {[](auto& c) {
         c.export_tensors = "there";
         c.train_iters = 3;
         c.export_at = "1-4";
       },
       1, "--export-at: step 4 is behind the last one, 3"},
      {[](auto& c) { c.model.hidden_dropout = 1.0; }, 1, "--hidden-dropout: 1 is not in [0, 1)"},
      {[](auto& c) { c.model.attention_dropout = std::nan(""); }, 1,
       "--attention-dropout: nan is not in [0, 1)"},
      {[](auto& c) { c.model.rotary_base = 0; }, 1, "--rotary-base: 0 is not above 0"},
      {[](auto& c) { c.model.norm_epsilon = -1e-5; }, 1, "--norm-epsilon: -1e-05 is not above 0"},
      {[](auto& c) { c.model.init_method_std = -1; }, 1, "--init-method-std: -1 is below 0"},
      {[](auto& c) { c.optimizer.min_lr = -1; }, 1, "--min-lr: -1 is below 0"},
      {[](auto& c) { c.optimizer.lr_warmup_iters = c.optimizer.lr_decay_iters = 50; }, 1,
       "--lr-warmup-iters: 50 steps leave none of the 50 of --lr-decay-iters in which"},
      {[](auto& c) { c.optimizer.lr_warmup_iters = -1; }, 1, "--lr-warmup-iters: -1 is below 0"},
      {[](auto& c) { c.optimizer.lr_decay_iters = -1; }, 1, "--lr-decay-iters: -1 is below 0"},
      {[](auto& c) { c.optimizer.weight_decay = -0.1; }, 1, "--weight-decay: -0.1 is below 0"},
      {[](auto& c) { c.optimizer.clip_grad = -1; }, 1, "--clip-grad: -1 is below 0"},
      {[](auto& c) { c.optimizer.adam_beta1 = -0.9; }, 1, "--adam-beta1: -0.9 is not in [0, 1)"},
      {[](auto& c) { c.optimizer.adam_beta2 = 1; }, 1, "--adam-beta2: 1 is not in [0, 1)"},
      {[](auto& c) { c.optimizer.adam_eps = 0; }, 1, "--adam-eps: 0 is not above 0"},
      {[](auto& c) { c.global_batch_size = -8; }, 1, "--global-batch-size: -8 is below 0"},
      {[](auto& c) { c.loss_chunk_size = -1; }, 1, "--loss-chunk-size: -1 is below 0"},
      {[](auto& c) { c.eval_interval = -1; }, 1, "--eval-interval: -1 is below 0"},
      {[](auto& c) {
         c.model.position_embedding_type = "rope";
         c.model.kv_channels = 7;
       },
       1, "rotary embedding needs an even head size, not 7"},
  };
  for (const auto& [change, world_size, message] : cases) {
    TrainConfig config;
    change(config);
    const auto shape = check(config, world_size);
    ASSERT_FALSE(shape.ok()) << message;
    EXPECT_THAT(to_string(shape.error()), HasSubstr(message));
  }
}

TEST(TrainConfig, AnOptionOfThePageNeedsAPort) {
  TrainConfig config;
  config.recording.record = "there";
  EXPECT_TRUE(check(config, 1).ok());
  config.tracer.tensor_tracer_linger = true;
  EXPECT_FALSE(check(config, 1).ok());
  EXPECT_TRUE(check_unseen(config, 1).ok());
}

TEST(TrainConfig, ARunWithoutAPageIsTracedIfAnOptionAsksForTracedData) {
  const std::vector<std::function<void(TrainConfig&)>> asking = {
      [](auto& c) { c.tracer.tensor_tracer_port = 0; },
      [](auto& c) { c.tracer.tensor_tracer_plan = "plan.json"; },
      [](auto& c) { c.tracer.tensor_tracer_vectors = "vectors"; },
      [](auto& c) { c.monitor.monitor_prompts = {"probes.txt"}; },
      [](auto& c) { c.alarm.alarms = "alarms.json"; },
      [](auto& c) { c.alarm.spike_recorder = 5; },
      [](auto& c) { c.recording.record = "there"; },
      [](auto& c) { c.recording.record_points = {"MLP1"}; },
      [](auto& c) { c.recording.record_layers = "1"; },
      [](auto& c) { c.recording.record_every = 2; },
      [](auto& c) { c.recording.history = true; }};
  const std::vector<std::function<void(TrainConfig&)>> silent = {
      [](auto&) {},
      [](auto& c) { c.recording.history = false; },
      [](auto& c) { c.alarm.alarm_webhook = "http://127.0.0.1:9000"; },
      [](auto& c) { c.alarm.alarm_command = {"./notify.sh"}; },
      [](auto& c) { c.alarm.alarm_pause_timeout = 60; },
      [](auto& c) { c.intervention.interventions = {"steer.tti"}; },
      [](auto& c) {
        c.intervention.interventions = {"steer.tti"};
        c.tracer.tensor_tracer_vectors = "vectors";
      }};
  for (const auto& [changes, is_traced] : {std::pair(asking, true), std::pair(silent, false)}) {
    for (std::size_t i = 0; i < changes.size(); ++i) {
      TrainConfig config;
      changes[i](config);
      EXPECT_TRUE(check(config, 1).ok()) << i;
      EXPECT_EQ(config.is_traced(), is_traced) << i;
    }
  }
}

TEST(TrainConfig, DatasetsAreWeightsAndPathsOrOnlyPaths) {
  const auto parts = parse_data_path({"0.25", "a", "3e1", "b"});
  ASSERT_TRUE(parts.ok());
  ASSERT_EQ(parts.value().size(), 2U);
  EXPECT_EQ(parts.value()[0].weight, 0.25);
  EXPECT_EQ(parts.value()[1].weight, 30);
  EXPECT_THAT(parts.value()[1].paths, testing::ElementsAre("b"));
  const auto plain = parse_data_path({"a", "1", "./2"});
  ASSERT_TRUE(plain.ok());
  EXPECT_THAT(plain.value()[0].paths, testing::ElementsAre("a", "1", "./2"));
  const std::vector<std::vector<std::string>> wrong = {
      {"1"}, {"1", "a", "b", "2"}, {"-1", "a"}, {"0", "a"}, {"inf", "a"}, {"1", "a", "2"}};
  for (const auto& values : wrong) EXPECT_FALSE(parse_data_path(values).ok()) << values.back();
}

TEST(TrainConfig, StepListsAreCommasAndRanges) {
  EXPECT_THAT(parse_steps("1,5-7").value(), testing::ElementsAre(1, 5, 6, 7));
  for (const char* wrong : {"", "0", "a", "1,", "1-", "1-99999999"})
    EXPECT_FALSE(parse_steps(wrong)) << wrong;
}

}  // namespace
}  // namespace tt::config

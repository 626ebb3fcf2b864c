#include "tests/unit/train/tiny_run.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "tensor_tracer/comm/world.h"
#include "tensor_tracer/train/plan_context.h"

namespace tt::train {
namespace {

/// A text whose bytes are neither constant nor periodic.
data::TextCorpus make_corpus() {
  const auto path = std::filesystem::path(testing::TempDir()) /
                    ("trainer_" + std::to_string(::getpid()) + ".txt");
  std::uint32_t state = 1;
  std::string text;
  for (int i = 0; i < 8192; ++i) {
    state = state * 1664525U + 1013904223U;
    text += static_cast<char>('a' + (state >> 24U) % 26U);
  }
  std::ofstream(path) << text;
  auto corpus = data::TextCorpus::open({path.string()}, {});
  std::filesystem::remove(path);
  return std::move(corpus).value();
}

}  // namespace

config::TrainConfig tiny_config(mesh::MeshShape shape) {
  config::TrainConfig config;
  config.model.num_layers = 2;
  config.model.hidden_size = 32;
  config.model.num_attention_heads = 4;
  config.model.seq_length = 16;
  config.optimizer.lr = 1e-2;
  config.tensor_model_parallel_size = shape.tensor;
  config.micro_batch_size = 2;
  config.global_batch_size = 8;
  config.train_iters = kSteps;
  config.eval_interval = 4;
  config.eval_iters = 2;
  config.params_dtype = "float64";
  return config;
}

std::vector<trace::Request> Script::poll() {
  if (requests.empty()) return {};
  auto next = std::move(requests.front());
  requests.pop_front();
  return next;
}

void Script::send_records(std::string sent) noexcept {
  for (Record& record : records_of(sent)) records.push_back(std::move(record));
}

std::vector<Script::Record> records_of(const std::string& message) {
  std::vector<Script::Record> records;
  protocol::RecordReader reader(message);
  while (const auto record = reader.next()) {
    std::vector<float> values(record->payload.size() / sizeof(float));
    std::memcpy(values.data(), record->payload.data(), record->payload.size());
    records.emplace_back(record->header, std::move(values));
  }
  EXPECT_TRUE(reader.status().ok());
  return records;
}

std::vector<RankResult> train(const config::TrainConfig& config, mesh::MeshShape shape,
                              Script* script, const Customise& customise) {
  static const data::TextCorpus corpus = make_corpus();
  data::Blend blend(1);
  blend.front().samples = std::make_unique<data::StreamSamples>(
      std::make_shared<data::ByteTokens>(corpus), config.model.seq_length);
  EXPECT_TRUE(config::check_unseen(config, shape.world_size()).ok());
  std::vector<RankResult> results(static_cast<std::size_t>(shape.world_size()));
  comm::run_local(shape.world_size(), [&](const comm::ProcessGroup& world) {
    at::set_num_threads(1);
    RankResult& result = results[static_cast<std::size_t>(world.rank())];
    TrainerParts parts;
    parts.groups = make_groups(world, shape);
    parts.blend = &blend;
    parts.plan_context = make_plan_context(config, shape, nullptr, {});
    if (world.rank() == 0) {
      parts.control_source = script;
      parts.sink = script;
    }
    parts.on_step = [&result](const StepReport& report) { result.reports.push_back(report); };
    customise(parts, world.rank());
    Trainer trainer(config, std::move(parts));
    try {
      trainer.run();
    } catch (const NonFiniteError& error) {
      result.train_error = error.what();
      result.is_persistent = error.is_persistent();
    } catch (const TrainError& error) {
      result.train_error = error.what();
    }
  });
  return results;
}

}  // namespace tt::train

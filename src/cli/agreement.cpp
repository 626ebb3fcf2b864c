#include "src/cli/agreement.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tensor_tracer/base/hash.h"

namespace tt::cli {
namespace {

using nlohmann::json;

constexpr std::int64_t kSamples = 1024;
constexpr std::int64_t kSampleBytes = 64;

json numbers_of(const config::TrainConfig& config) {
  const config::OptimizerConfig& optimizer = config.optimizer;
  return {config::to_json(config.model),
          config.model.init_method_std,
          {optimizer.lr, optimizer.last_lr(), optimizer.lr_warmup_iters, optimizer.lr_decay_iters,
           optimizer.weight_decay, optimizer.clip_grad, optimizer.adam_beta1, optimizer.adam_beta2,
           optimizer.adam_eps},
          {config.tensor_model_parallel_size, config.micro_batch_size, config.global_batch_size,
           config.train_iters, config.eval_interval, config.eval_iters, config.seed,
           config.params_dtype, config.bf16, config.data.split, config.monitor.monitor_interval},
          {!config.export_tensors.empty(), config.export_at, config::has_hub(config.tracer)}};
}

std::uint64_t hash_of(const data::TextCorpus& corpus) {
  std::uint64_t hash = base::mix(static_cast<std::uint64_t>(corpus.size()),
                                 static_cast<std::uint64_t>(corpus.num_files()));
  const std::int64_t bytes = std::min(kSampleBytes, corpus.size());
  std::string sample(static_cast<std::size_t>(bytes), '\0');
  for (std::int64_t i = 0; i < kSamples; ++i) {
    corpus.read(i * ((corpus.size() - bytes) / kSamples),
                {reinterpret_cast<std::uint8_t*>(sample.data()), sample.size()});
    hash = base::mix(hash, base::hash_of(sample));
  }
  return hash;
}

json texts_of(const std::vector<data::PromptSet>& prompts) {
  json sets = json::array();
  for (const data::PromptSet& set : prompts) sets.push_back({set.name, set.texts});
  return sets;
}

struct Part {
  std::string_view flags;
  std::string_view what;
  std::string_view advice;
  std::uint64_t hash = 0;
};

}  // namespace

base::Status check_agreement(const config::TrainConfig& config, const data::TextCorpus& corpus,
                             const std::vector<data::PromptSet>& prompts,
                             const comm::ProcessGroup& world) {
  const std::array<Part, 3> parts{
      {{"tensor-tracer train", "options", "", base::hash_of(numbers_of(config).dump())},
       {"--data-path", "training text",
        ", and leave out what is written to as they start, with --data-exclude", hash_of(corpus)},
       {"--monitor-prompts", "prompts", "", base::hash_of(texts_of(prompts).dump())}}};
  const auto count = static_cast<std::int64_t>(parts.size());
  at::Tensor own = at::empty({count}, at::kLong);
  for (std::int64_t i = 0; i < count; ++i) {
    own[i] = static_cast<std::int64_t>(parts[static_cast<std::size_t>(i)].hash);
  }
  at::Tensor all = at::empty({world.size(), count}, at::kLong);
  world.all_gather(own, all);
  for (std::int64_t i = 0; i < count; ++i) {
    for (int rank = 1; rank < world.size(); ++rank) {
      if (at::equal(all[rank][i], all[0][i])) continue;
      const Part& part = parts[static_cast<std::size_t>(i)];
      return base::Error{"invalid_argument",
                         fmt::format("rank {} has other {} than rank 0", rank, part.what),
                         std::string(part.flags),
                         std::string("give all ranks the same") + std::string(part.advice)};
    }
  }
  return {};
}

}  // namespace tt::cli

#include "src/cli/agreement.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tensor_tracer/base/hash.h"
#include "tensor_tracer/comm/broadcast.h"

namespace tt::cli {
namespace {

using config::TrainConfig;
using nlohmann::json;

constexpr std::int64_t kSamples = 1024;
constexpr std::int64_t kSampleBytes = 64;

struct AgreedOption {
  const char* flag;
  std::string (*print)(const TrainConfig& config);
};

template <typename Value>
std::string text(const Value& value) {
  return fmt::format("{}", value);
}

// Files that rank 0 alone reads are not among them.
constexpr AgreedOption kAgreedOptions[] = {
    {"--num-layers", [](const TrainConfig& c) { return text(c.model.num_layers); }},
    {"--hidden-size", [](const TrainConfig& c) { return text(c.model.hidden_size); }},
    {"--ffn-hidden-size", [](const TrainConfig& c) { return text(c.model.ffn_size()); }},
    {"--num-attention-heads",
     [](const TrainConfig& c) { return text(c.model.num_attention_heads); }},
    {"--num-query-groups", [](const TrainConfig& c) { return text(c.model.query_groups()); }},
    {"--kv-channels", [](const TrainConfig& c) { return text(c.model.head_size()); }},
    {"--seq-length", [](const TrainConfig& c) { return text(c.model.seq_length); }},
    {"--vocab-size", [](const TrainConfig& c) { return text(c.model.vocab_size); }},
    {"--normalization",
     [](const TrainConfig& c) { return text(config::to_string(c.model.normalization)); }},
    {"--norm-epsilon", [](const TrainConfig& c) { return text(c.model.norm_epsilon); }},
    {"--position-embedding-type",
     [](const TrainConfig& c) { return text(config::to_string(c.model.position_embedding_type)); }},
    {"--rotary-base", [](const TrainConfig& c) { return text(c.model.rotary_base); }},
    {"--swiglu", [](const TrainConfig& c) { return text(c.model.swiglu); }},
    {"--disable-bias-linear",
     [](const TrainConfig& c) { return text(c.model.disable_bias_linear); }},
    {"--untie-embeddings-and-output-weights",
     [](const TrainConfig& c) { return text(c.model.untie_embeddings_and_output_weights); }},
    {"--attention-dropout", [](const TrainConfig& c) { return text(c.model.attention_dropout); }},
    {"--hidden-dropout", [](const TrainConfig& c) { return text(c.model.hidden_dropout); }},
    {"--init-method-std", [](const TrainConfig& c) { return text(c.model.init_method_std); }},
    {"--lr", [](const TrainConfig& c) { return text(c.optimizer.lr); }},
    {"--min-lr", [](const TrainConfig& c) { return text(c.optimizer.last_lr()); }},
    {"--lr-warmup-iters", [](const TrainConfig& c) { return text(c.optimizer.lr_warmup_iters); }},
    {"--lr-decay-iters", [](const TrainConfig& c) { return text(c.optimizer.lr_decay_iters); }},
    {"--weight-decay", [](const TrainConfig& c) { return text(c.optimizer.weight_decay); }},
    {"--clip-grad", [](const TrainConfig& c) { return text(c.optimizer.clip_grad); }},
    {"--adam-beta1", [](const TrainConfig& c) { return text(c.optimizer.adam_beta1); }},
    {"--adam-beta2", [](const TrainConfig& c) { return text(c.optimizer.adam_beta2); }},
    {"--adam-eps", [](const TrainConfig& c) { return text(c.optimizer.adam_eps); }},
    {"--tensor-model-parallel-size",
     [](const TrainConfig& c) { return text(c.tensor_model_parallel_size); }},
    {"--micro-batch-size", [](const TrainConfig& c) { return text(c.micro_batch_size); }},
    {"--global-batch-size", [](const TrainConfig& c) { return text(c.global_batch_size); }},
    {"--train-iters", [](const TrainConfig& c) { return text(c.train_iters); }},
    {"--eval-interval", [](const TrainConfig& c) { return text(c.eval_interval); }},
    {"--eval-iters", [](const TrainConfig& c) { return text(c.eval_iters); }},
    {"--seed", [](const TrainConfig& c) { return text(c.seed); }},
    {"--params-dtype", [](const TrainConfig& c) { return c.params_dtype; }},
    {"--bf16", [](const TrainConfig& c) { return text(c.bf16); }},
    {"--split", [](const TrainConfig& c) { return c.data.split; }},
    {"--monitor-interval", [](const TrainConfig& c) { return text(c.monitor.monitor_interval); }},
    {"--tensor-tracer-wait",
     [](const TrainConfig& c) { return text(c.tracer.tensor_tracer_wait); }},
    {"--export-tensors",
     [](const TrainConfig& c) {
       return std::string(c.export_tensors.empty() ? "no folder" : "a folder");
     }},
    {"--export-at", [](const TrainConfig& c) { return c.export_at; }}};

std::string describe(const data::TextCorpus& corpus) {
  std::uint64_t hash = 0;
  const std::int64_t bytes = std::min(kSampleBytes, corpus.size());
  std::string sample(static_cast<std::size_t>(bytes), '\0');
  for (std::int64_t i = 0; i < kSamples; ++i) {
    corpus.read(i * ((corpus.size() - bytes) / kSamples),
                {reinterpret_cast<std::uint8_t*>(sample.data()), sample.size()});
    hash = base::mix(hash, base::hash_of(sample));
  }
  return fmt::format("{} bytes in {} files (hash of samples {:016x})", corpus.size(),
                     corpus.num_files(), hash);
}

struct Row {
  std::string flag;
  std::string value;
  std::string remedy = "give all ranks the same";
};

std::vector<Row> rows_of(const TrainConfig& config, const data::TextCorpus& corpus) {
  std::vector<Row> rows;
  for (const AgreedOption& option : kAgreedOptions) {
    rows.push_back({option.flag, option.print(config)});
  }
  rows.push_back({"--data-path", describe(corpus),
                  "give all ranks the same, and leave out files that are written to as they start, "
                  "with --data-exclude"});
  return rows;
}

// The values of rank 0, in the order of the rows.
std::vector<std::string> first_values(const std::vector<Row>& rows,
                                      const comm::ProcessGroup& world) {
  std::vector<std::string> values;
  for (const Row& row : rows) values.push_back(row.value);
  std::string packed;
  json::to_msgpack(values, packed);
  comm::broadcast_text(world, packed, 0);
  return json::from_msgpack(packed).get<std::vector<std::string>>();
}

}  // namespace

base::Status check_agreement(const TrainConfig& config, const data::TextCorpus& corpus,
                             const comm::ProcessGroup& world) {
  const std::vector<Row> rows = rows_of(config, corpus);
  const std::vector<std::string> first = first_values(rows, world);
  const auto other = std::ranges::mismatch(rows, first, {}, &Row::value).in1;
  const auto options = at::device(at::kCPU).dtype(at::kLong);
  const at::Tensor own = at::full({1}, other - rows.begin(), options);
  at::Tensor all = at::empty({world.size()}, options);
  world.all_gather(own, all);
  for (int rank = 1; rank < world.size(); ++rank) {
    const auto index = static_cast<std::size_t>(all[rank].item<std::int64_t>());
    if (index == rows.size()) continue;
    const Row& row = rows[index];
    std::string value = row.value;
    comm::broadcast_text(world, value, rank);
    return base::Error{"invalid_argument",
                       fmt::format("rank {} has {}, rank 0 has {}", rank, value, first[index]),
                       row.flag, row.remedy};
  }
  return {};
}

}  // namespace tt::cli

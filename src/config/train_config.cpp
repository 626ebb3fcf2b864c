#include "tensor_tracer/config/train_config.h"

#include <algorithm>

#include "tensor_tracer/base/ranges.h"

namespace tt::config {
namespace {

base::Status require_divisible(const char* flag, std::int64_t value, const std::string& by_name,
                               std::int64_t by) {
  if (value % by == 0) return {};
  return base::invalid_argument(
      flag, std::to_string(value) + " is not divisible by " + by_name + " " + std::to_string(by));
}

base::Status check_heads(const ModelConfig& model) {
  if (model.kv_channels == 0) {
    auto status = require_divisible("--hidden-size", model.hidden_size, "--num-attention-heads",
                                    model.num_attention_heads);
    if (!status) return status;
  }
  if (model.position_embedding_type == "rope" && model.head_size() % 2 != 0) {
    return base::invalid_argument(
        "--kv-channels",
        "rotary embedding needs an even head size, not " + std::to_string(model.head_size()));
  }
  return require_divisible("--num-attention-heads", model.num_attention_heads, "--num-query-groups",
                           model.query_groups());
}

base::Status check_adapters(const ModelConfig& model) {
  const ModelConfig unset;
  const bool names_targets = model.lora_target_modules != unset.lora_target_modules;
  if (model.lora_rank == 0) {
    if (!names_targets && model.lora_alpha == unset.lora_alpha) return {};
    return base::invalid_argument(names_targets ? "--lora-target-modules" : "--lora-alpha",
                                  "there are no adapters without a rank", "add --lora-rank 8");
  }
  const auto has = [&](const char* name) {
    return std::ranges::find(model.lora_target_modules, name) != model.lora_target_modules.end();
  };
  const auto refuse = [](const std::string& message, const std::string& remedy) {
    return base::invalid_argument("--lora-target-modules", message, remedy);
  };
  if (model.lora_target_modules.empty()) return refuse("names no layer", "name one");
  if (has("qkv") && (has("query") || has("key") || has("value")))
    return refuse("qkv includes query, key and value", "name either");
  if ((has("gate") || has("up")) && !model.swiglu)
    return refuse("the model has no gate", "name fc1, or add --swiglu");
  if (has("fc1") && (has("gate") || has("up")))
    return refuse("fc1 includes gate and up", "name either");
  if (!model.freeze.empty()) {
    return base::invalid_argument("--freeze", "with --lora-rank only the adapters are trained",
                                  "leave one of them out");
  }
  return {};
}

base::Status check_data_path(const DataConfig& data) {
  const auto parts = parse_data_path(data.data_path);
  return parts ? base::Status() : parts.error();
}

base::Status check_vocabulary(const TrainConfig& config) {
  const bool has_bytes = config.data.tokenizer.empty() || config.data.tokenizer == "byte";
  if (!has_bytes || config.model.vocab_size >= 256) return {};
  return base::invalid_argument("--vocab-size",
                                std::to_string(config.model.vocab_size) +
                                    " is less than the 256 tokens of the byte tokenizer");
}

base::Status check_positions(const ModelConfig& model) {
  if (model.position_embedding_type == "learned_absolute" &&
      model.max_positions() < model.seq_length) {
    return base::invalid_argument("--seq-length",
                                  std::to_string(model.seq_length) + " tokens are more than the " +
                                      std::to_string(model.max_positions()) +
                                      " positions of --max-position-embeddings",
                                  "give fewer");
  }
  if (model.rope_low_freq_factor < model.rope_high_freq_factor) return {};
  return base::invalid_argument("--rope-low-freq-factor", "is not below --rope-high-freq-factor",
                                "give a smaller one");
}

base::Status check_tensor_axis(const ModelConfig& model, int tensor) {
  const std::string by = "--tensor-model-parallel-size";
  auto status = require_divisible("--num-attention-heads", model.num_attention_heads, by, tensor);
  if (!status) return status;
  if (model.query_groups() % tensor != 0 && tensor % model.query_groups() != 0) {
    return base::invalid_argument("--num-query-groups", std::to_string(model.query_groups()) +
                                                            " neither divides nor is divided by " +
                                                            by + " " + std::to_string(tensor));
  }
  return require_divisible("--ffn-hidden-size", model.ffn_size(), by, tensor);
}

base::Status check_schedule(const OptimizerConfig& optimizer) {
  const std::int64_t decay = optimizer.lr_decay_iters;
  if (decay == 0 || optimizer.lr_warmup_iters < decay) return {};
  return base::invalid_argument("--lr-warmup-iters",
                                std::to_string(optimizer.lr_warmup_iters) +
                                    " steps leave none of the " + std::to_string(decay) +
                                    " of --lr-decay-iters in which the rate falls",
                                "give fewer, or more --lr-decay-iters");
}

base::Status check_export(const TrainConfig& config) {
  if (config.export_tensors.empty()) return {};
  const auto steps = parse_steps(config.export_at);
  for (const std::int64_t step : *steps) {
    if (step <= config.train_iters) continue;
    return base::invalid_argument("--export-at", "step " + std::to_string(step) +
                                                     " is behind the last one, " +
                                                     std::to_string(config.train_iters));
  }
  return {};
}

base::Status check_dtype(const TrainConfig& config) {
  if (!config.bf16 || config.params_dtype == "float32") return {};
  return base::invalid_argument("--bf16", "keeps float32 weights, not " + config.params_dtype,
                                "leave --bf16 or --params-dtype out");
}

// The error of the first option that was given while the thing that it needs is absent.
base::Status refuse_given(TrainConfig config, Needs absent, const std::string& message,
                          const std::string& remedy) {
  TrainConfig defaults;
  const Options unset = train_options(defaults);
  const Options given = train_options(config);
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i].needs != absent || value_of(given[i]) == value_of(unset[i])) continue;
    return base::invalid_argument(given[i].flag, message, remedy);
  }
  return {};
}

base::Status check_page(const TrainConfig& config) {
  if (config.tracer.tensor_tracer_port) return {};
  return refuse_given(config, Needs::kPage, "there is no page without a port",
                      "add --tensor-tracer-port 0");
}

base::Status check_saves(const CheckpointConfig& checkpoint) {
  if (!checkpoint.save.empty()) {
    if (checkpoint.keep_best == 0 || checkpoint.keep_last > 0) return {};
    return base::invalid_argument("--keep-best", "all checkpoints stay without --keep-last",
                                  "add --keep-last 1");
  }
  const char* given = nullptr;
  if (checkpoint.save_interval > 0) given = "--save-interval";
  if (checkpoint.keep_last > 0) given = "--keep-last";
  if (checkpoint.keep_best > 0) given = "--keep-best";
  if (given == nullptr) return {};
  return base::invalid_argument(given, "nothing is saved without a folder", "add --save FOLDER");
}

base::Status check_unseen_options(TrainConfig config) {
  auto status = check(train_options(config));
  if (status) status = check_data_path(config.data);
  if (status) status = check_heads(config.model);
  if (status) status = check_positions(config.model);
  if (status) status = check_vocabulary(config);
  if (status) status = check_adapters(config.model);
  if (status) status = check_schedule(config.optimizer);
  if (status) status = check_dtype(config);
  if (status) status = check_export(config);
  if (status) status = check_saves(config.checkpoint);
  if (status) status = check_sampling(config.monitor.responses, "--monitor-");
  if (status) status = check_steering(config.intervention.steering);
  return status;
}

}  // namespace

ModelConfig ModelConfig::resolved() const {
  ModelConfig model = *this;
  model.ffn_hidden_size = ffn_size();
  model.num_query_groups = query_groups();
  model.kv_channels = head_size();
  return model;
}

double TrainConfig::first_watchdog_timeout() const {
  if (watchdog_timeout == 0) return watchdog_first_step_timeout.value_or(0);
  return watchdog_first_step_timeout.value_or(std::max(300.0, watchdog_timeout));
}

bool TrainConfig::is_traced() const {
  const bool records = !recording.record.empty() || !recording.record_points.empty() ||
                       !recording.record_layers.empty() || recording.record_every > 1 ||
                       recording.history == true;
  const bool plan = !tracer.tensor_tracer_plan.empty() || !monitor.monitor_prompts.empty();
  const bool alarms = !alarm.alarms.empty() || alarm.spike_recorder > 0;
  // Programs need the vectors, too, and need no trace.
  const bool projects = !tracer.tensor_tracer_vectors.empty() && !intervention.has_programs();
  return tracer.tensor_tracer_port || records || plan || alarms || projects;
}

TrainConfig TrainConfig::resolved() const {
  TrainConfig config = *this;
  config.model = model.resolved();
  config.optimizer.min_lr = optimizer.last_lr();
  return config;
}

base::Result<mesh::MeshShape> check(const TrainConfig& config, int world_size) {
  auto status = check_page(config);
  if (!status) return status.error();
  return check_unseen(config, world_size);
}

base::Result<mesh::MeshShape> check_unseen(const TrainConfig& config, int world_size) {
  if (auto status = check_unseen_options(config); !status) return status.error();
  auto shape = mesh::fit_mesh(world_size, config.tensor_model_parallel_size, 1);
  if (!shape) return shape.error();
  auto status = check_tensor_axis(config.model, shape.value().tensor);
  if (!status) return status.error();
  const int data = shape.value().data;
  status =
      require_divisible("--global-batch-size", config.global_batch(data),
                        "--micro-batch-size × data-parallel size", config.micro_batch_size * data);
  if (!status) return status.error();
  return shape;
}

std::optional<std::vector<std::int64_t>> parse_steps(const std::string& text) {
  const auto ranges = base::parse_ranges(text);
  if (!ranges) return std::nullopt;
  std::vector<std::int64_t> steps;
  for (const auto& [first, last] : *ranges) {
    if (first < 1 || last - first > 100'000) return std::nullopt;
    for (std::int64_t step = first; step <= last; ++step) steps.push_back(step);
  }
  return steps;
}

std::optional<std::pair<double, double>> parse_split(const std::string& text) {
  const auto numbers = base::parse_ranges(text);
  if (!numbers || numbers->size() != 2) return std::nullopt;
  const auto [train, train_last] = numbers->front();
  const auto [valid, valid_last] = numbers->back();
  const bool are_single = train == train_last && valid == valid_last;
  if (!are_single || train == 0 || valid == 0 || train + valid != 100) return std::nullopt;
  return std::pair{static_cast<double>(train), static_cast<double>(valid)};
}

}  // namespace tt::config

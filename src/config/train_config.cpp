#include "tensor_tracer/config/train_config.h"

#include <charconv>
#include <cmath>
#include <sstream>
#include <string_view>
#include <utility>

#include "tensor_tracer/base/ranges.h"

namespace tt::config {
namespace {

std::string text_of(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

base::Status require_positive(const char* flag, double value) {
  if (value > 0 && std::isfinite(value)) return {};
  return base::invalid_argument(flag, text_of(value) + " is not above 0");
}

base::Status require_not_negative(const char* flag, double value) {
  if (value >= 0 && std::isfinite(value)) return {};
  return base::invalid_argument(flag, text_of(value) + " is below 0");
}

base::Status require_share(const char* flag, double value) {
  if (value >= 0 && value < 1) return {};
  return base::invalid_argument(flag, text_of(value) + " is not in [0, 1)");
}

base::Status require_divisible(const char* flag, std::int64_t value, const std::string& by_name,
                               std::int64_t by) {
  if (value % by == 0) return {};
  return base::invalid_argument(
      flag, std::to_string(value) + " is not divisible by " + by_name + " " + std::to_string(by));
}

base::Status check_model(const ModelConfig& model) {
  const std::pair<const char*, std::int64_t> sizes[] = {
      {"--num-layers", model.num_layers},
      {"--hidden-size", model.hidden_size},
      {"--ffn-hidden-size", model.ffn_size()},
      {"--num-attention-heads", model.num_attention_heads},
      {"--num-query-groups", model.query_groups()},
      {"--seq-length", model.seq_length}};
  for (const auto& [flag, size] : sizes) {
    if (auto status = require_positive(flag, static_cast<double>(size)); !status) return status;
  }
  if (model.vocab_size < 256) {
    return base::invalid_argument(
        "--vocab-size",
        std::to_string(model.vocab_size) + " is less than the 256 tokens of the byte tokenizer");
  }
  if (model.kv_channels == 0) {
    auto status = require_divisible("--hidden-size", model.hidden_size, "--num-attention-heads",
                                    model.num_attention_heads);
    if (!status) return status;
  }
  if (model.position_embedding_type == PositionEmbedding::kRope && model.head_size() % 2 != 0) {
    return base::invalid_argument(
        "--kv-channels",
        "rotary embedding needs an even head size, not " + std::to_string(model.head_size()));
  }
  auto status = require_share("--attention-dropout", model.attention_dropout);
  if (status) status = require_share("--hidden-dropout", model.hidden_dropout);
  if (status) status = require_positive("--norm-epsilon", model.norm_epsilon);
  if (status) status = require_positive("--rotary-base", model.rotary_base);
  if (status) status = require_not_negative("--init-method-std", model.init_method_std);
  if (!status) return status;
  return require_divisible("--num-attention-heads", model.num_attention_heads, "--num-query-groups",
                           model.query_groups());
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

base::Status check_optimizer(const OptimizerConfig& optimizer) {
  base::Status status = require_positive("--lr", optimizer.lr);
  if (status) status = require_not_negative("--min-lr", optimizer.last_lr());
  const std::pair<const char*, double> not_negative[] = {
      {"--lr-warmup-iters", static_cast<double>(optimizer.lr_warmup_iters)},
      {"--lr-decay-iters", static_cast<double>(optimizer.lr_decay_iters)},
      {"--weight-decay", optimizer.weight_decay},
      {"--clip-grad", optimizer.clip_grad}};
  for (const auto& [flag, value] : not_negative) {
    if (status) status = require_not_negative(flag, value);
  }
  if (status) status = require_share("--adam-beta1", optimizer.adam_beta1);
  if (status) status = require_share("--adam-beta2", optimizer.adam_beta2);
  if (status) status = require_positive("--adam-eps", optimizer.adam_eps);
  if (!status) return status;
  const std::int64_t decay = optimizer.lr_decay_iters;
  if (decay == 0 || optimizer.lr_warmup_iters < decay) return {};
  return base::invalid_argument("--lr-warmup-iters",
                                std::to_string(optimizer.lr_warmup_iters) +
                                    " steps leave none of the " + std::to_string(decay) +
                                    " of --lr-decay-iters in which the rate falls",
                                "give fewer, or more --lr-decay-iters");
}

base::Status check_export(const TrainConfig& config) {
  const auto steps = parse_steps(config.export_at);
  if (!steps) return steps.error();
  if (config.export_tensors.empty()) return {};
  for (const std::int64_t step : steps.value()) {
    if (step <= config.train_iters) continue;
    return base::invalid_argument("--export-at", "step " + std::to_string(step) +
                                                     " is behind the last one, " +
                                                     std::to_string(config.train_iters));
  }
  return {};
}

base::Status check_steps(const TrainConfig& config) {
  const std::pair<const char*, double> positive[] = {
      {"--micro-batch-size", static_cast<double>(config.micro_batch_size)},
      {"--train-iters", static_cast<double>(config.train_iters)},
      {"--eval-iters", static_cast<double>(config.eval_iters)}};
  for (const auto& [flag, value] : positive) {
    if (auto status = require_positive(flag, value); !status) return status;
  }
  const std::pair<const char*, double> not_negative[] = {
      {"--global-batch-size", static_cast<double>(config.global_batch_size)},
      {"--eval-interval", static_cast<double>(config.eval_interval)}};
  for (const auto& [flag, value] : not_negative) {
    if (auto status = require_not_negative(flag, value); !status) return status;
  }
  auto status = check_optimizer(config.optimizer);
  if (!status) return status;
  if (config.params_dtype != "float32" && config.params_dtype != "float64") {
    return base::invalid_argument("--params-dtype",
                                  "\"" + config.params_dtype + "\" is not float32 or float64");
  }
  if (config.bf16 && config.params_dtype != "float32") {
    return base::invalid_argument("--bf16",
                                  "keeps float32 master weights, not " + config.params_dtype,
                                  "leave --params-dtype out");
  }
  if (auto split = parse_split(config.data.split); !split) return split.error();
  return check_export(config);
}

base::Status check_recording(const TracerConfig& tracer) {
  const std::pair<const char*, bool> needs_record[] = {
      {"--record-max-bytes", tracer.record_max_bytes != 0},
      {"--record-points", !tracer.record_points.empty()},
      {"--record-layers", !tracer.record_layers.empty()},
      {"--record-every", tracer.record_every != 1}};
  for (const auto& [flag, given] : needs_record) {
    if (given && tracer.record.empty()) {
      return base::invalid_argument(flag, "nothing is recorded", "add --record DIR");
    }
  }
  if (!tracer.record_layers.empty() && !base::parse_numbers(tracer.record_layers)) {
    return base::invalid_argument("--record-layers",
                                  "\"" + tracer.record_layers + "\" is not a list of layers",
                                  "give ranges such as 1-4,8");
  }
  return {};
}

base::Status check_page(const TracerConfig& tracer, const MonitorConfig& monitor,
                        const InterventionConfig& intervention) {
  if (tracer.tensor_tracer_port) return {};
  const bool unseen = tracer.record.empty() && intervention.interventions.empty();
  const std::pair<const char*, bool> needs_port[] = {
      {"--tensor-tracer-wait", tracer.tensor_tracer_wait},
      {"--tensor-tracer-plan", unseen && !tracer.tensor_tracer_plan.empty()},
      {"--tensor-tracer-vectors", unseen && !tracer.tensor_tracer_vectors.empty()},
      {"--monitor-prompts", unseen && !monitor.monitor_prompts.empty()},
      {"--tensor-tracer-linger", tracer.tensor_tracer_linger},
      {"--tensor-tracer-auth", tracer.tensor_tracer_auth != "token"},
      {"--tensor-tracer-allow-origin", !tracer.tensor_tracer_allow_origin.empty()},
      {"--tensor-tracer-compare", !tracer.tensor_tracer_compare.empty()},
      {"--tensor-tracer-open", tracer.tensor_tracer_open}};
  for (const auto& [flag, given] : needs_port) {
    if (given)
      return base::invalid_argument(flag, "there is no page without a port",
                                    "add --tensor-tracer-port 0");
  }
  return {};
}

std::optional<std::int64_t> to_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

base::Result<mesh::MeshShape> check(const TrainConfig& config, int world_size) {
  auto status = check_page(config.tracer, config.monitor, config.intervention);
  if (!status) return status.error();
  return check_unseen(config, world_size);
}

base::Result<mesh::MeshShape> check_unseen(const TrainConfig& config, int world_size) {
  if (auto status = check_model(config.model); !status) return status.error();
  if (auto status = check_steps(config); !status) return status.error();
  const auto interval = static_cast<double>(config.monitor.monitor_interval);
  if (auto status = require_positive("--monitor-interval", interval); !status) {
    return status.error();
  }
  if (auto status = check_recording(config.tracer); !status) return status.error();
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

base::Result<std::vector<std::int64_t>> parse_steps(const std::string& text) {
  const auto ranges = base::parse_ranges(text);
  std::vector<std::int64_t> steps;
  for (const auto& [first, last] : ranges.value_or(std::vector<base::Range>{{0, 0}})) {
    if (first < 1 || last - first > 100'000) {
      return base::invalid_argument("--export-at",
                                    "\"" + text + "\" is not a list of steps such as 1,5-7");
    }
    for (std::int64_t step = first; step <= last; ++step) steps.push_back(step);
  }
  return steps;
}

base::Result<std::pair<double, double>> parse_split(const std::string& text) {
  const auto comma = text.find(',');
  const auto train = to_number(std::string_view(text).substr(0, comma));
  const auto valid = comma == std::string::npos
                         ? std::nullopt
                         : to_number(std::string_view(text).substr(comma + 1));
  if (!train || !valid || *train <= 0 || *valid <= 0 || *train + *valid != 100) {
    return base::invalid_argument("--split",
                                  "\"" + text + "\" is not two whole per cents such as 95,5");
  }
  return std::pair{static_cast<double>(*train), static_cast<double>(*valid)};
}

const char* to_string(Normalization normalization) {
  return normalization == Normalization::kLayerNorm ? "LayerNorm" : "RMSNorm";
}

const char* to_string(PositionEmbedding embedding) {
  return embedding == PositionEmbedding::kRope ? "rope" : "learned_absolute";
}

nlohmann::json to_json(const ModelConfig& model) {
  return {{"num_layers", model.num_layers},
          {"hidden_size", model.hidden_size},
          {"ffn_hidden_size", model.ffn_size()},
          {"num_attention_heads", model.num_attention_heads},
          {"num_query_groups", model.query_groups()},
          {"kv_channels", model.head_size()},
          {"seq_length", model.seq_length},
          {"vocab_size", model.vocab_size},
          {"normalization", to_string(model.normalization)},
          {"norm_epsilon", model.norm_epsilon},
          {"position_embedding_type", to_string(model.position_embedding_type)},
          {"rotary_base", model.rotary_base},
          {"swiglu", model.swiglu},
          {"add_bias_linear", !model.disable_bias_linear},
          {"untie_embeddings_and_output_weights", model.untie_embeddings_and_output_weights},
          {"attention_dropout", model.attention_dropout},
          {"hidden_dropout", model.hidden_dropout}};
}

}  // namespace tt::config

#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/config/alarm_config.h"
#include "tensor_tracer/config/option.h"
#include "tensor_tracer/config/recording_config.h"
#include "tensor_tracer/config/sampling_config.h"
#include "tensor_tracer/config/steering_config.h"
#include "tensor_tracer/mesh/mesh.h"

/// Options with Megatron-LM's names: the field `num_layers` is the flag --num-layers and the key
/// "num_layers" of a JSON configuration. The defaults are written at the fields. A new option needs
/// a field here and a row in train_options().
namespace tt::config {

struct ModelConfig {
  std::int64_t num_layers = 4;
  std::int64_t hidden_size = 256;
  std::int64_t ffn_hidden_size = 0;  // 0: 4 × hidden_size
  std::int64_t num_attention_heads = 4;
  std::int64_t num_query_groups = 0;  // 0: the number of attention heads
  std::int64_t kv_channels = 0;       // 0: hidden_size / num_attention_heads
  std::int64_t seq_length = 256;
  std::int64_t vocab_size = 256;            // one for each byte
  std::string normalization = "LayerNorm";  // or "RMSNorm"
  double norm_epsilon = 1e-5;
  std::string position_embedding_type = "learned_absolute";  // or "rope"
  std::int64_t max_position_embeddings = 0;  // rows of the learned positions; 0: seq_length
  double rotary_base = 10000.0;
  double rope_scaling_factor = 1.0;  // of Llama 3; 1: none
  double rope_low_freq_factor = 1.0;
  double rope_high_freq_factor = 4.0;
  std::int64_t rope_original_max_positions = 8192;
  std::string activation = "gelu_tanh";  // or "gelu", "relu", "silu"; without swiglu
  bool swiglu = false;
  bool qk_layernorm = false;
  bool disable_bias_linear = false;
  bool add_qkv_bias = false;  // these three: in spite of disable_bias_linear
  bool add_proj_bias = false;
  bool add_mlp_bias = false;
  bool untie_embeddings_and_output_weights = false;
  double attention_dropout = 0.0;
  double hidden_dropout = 0.0;
  double init_method_std = 0.02;
  std::int64_t lora_rank = 0;  // of adapters; 0: none
  double lora_alpha = 32.0;    // adapters are scaled by lora_alpha / lora_rank
  std::vector<std::string> lora_target_modules = {"query", "value"};
  std::vector<std::string> freeze;  // patterns of parameters that are not trained

  /// With adapters, only they are trained.
  std::vector<std::string> frozen() const {
    return lora_rank > 0 ? std::vector<std::string>{"*"} : freeze;
  }
  std::int64_t ffn_size() const { return ffn_hidden_size > 0 ? ffn_hidden_size : 4 * hidden_size; }
  std::int64_t query_groups() const {
    return num_query_groups > 0 ? num_query_groups : num_attention_heads;
  }
  std::int64_t head_size() const {
    return kv_channels > 0 ? kv_channels : hidden_size / num_attention_heads;
  }
  std::int64_t max_positions() const {
    return max_position_embeddings > 0 ? max_position_embeddings : seq_length;
  }
  bool has_qkv_bias() const { return !disable_bias_linear || add_qkv_bias; }
  bool has_proj_bias() const { return !disable_bias_linear || add_proj_bias; }
  bool has_mlp_bias() const { return !disable_bias_linear || add_mlp_bias; }
  /// The same model, with the defaults that follow from other options filled in.
  ModelConfig resolved() const;
};

struct DataConfig {
  std::vector<std::string> data_path;     // docs/data.md; read by parse_data_path()
  std::vector<std::string> data_exclude;  // names of folders that are left out
  std::string tokenizer;                  // tokenizer.json, its folder, or "byte"; empty: default
  std::string split = "95,5";             // train,validation in per cent
  std::string documents = "auto";         // or "joined", "packed", "padded"
  std::string overlong = "refuse";        // or "cut"
};

/// A dataset of --data-path.
struct DataPart {
  double weight = 1.0;
  std::vector<std::string> paths;
};

struct OptimizerConfig {
  double lr = 6e-4;
  std::optional<double> min_lr;  // at the end of the cosine; unset: a tenth of lr
  std::int64_t lr_warmup_iters = 0;
  std::int64_t lr_decay_iters = 0;  // 0: train_iters
  double weight_decay = 0.1;
  double clip_grad = 1.0;  // 0: off
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.95;
  double adam_eps = 1e-8;

  double last_lr() const { return min_lr.value_or(0.1 * lr); }
};

struct TracerConfig {
  std::optional<int> tensor_tracer_port;  // 0: the next free one from 8765; unset: no hub
  bool tensor_tracer_wait = false;
  std::string tensor_tracer_plan;             // JSON file; empty: the default plan
  std::string tensor_tracer_vectors;          // folder or file of direction vectors; empty: none
  double tensor_tracer_pause_timeout = 30.0;  // seconds
  double tensor_tracer_ready_timeout = 300.0;
  bool tensor_tracer_linger = false;
  std::string tensor_tracer_auth = "token";             // or "none": viewers need no token
  std::vector<std::string> tensor_tracer_allow_origin;  // of pages besides the hub's own
  std::vector<std::string> tensor_tracer_compare;       // other recordings
  bool tensor_tracer_open = false;
  std::optional<bool> print_url;  // unset: on if there is a terminal and no launcher
};

/// Texts that run through the model every few steps; each file is a set.
struct MonitorConfig {
  std::vector<std::string> monitor_prompts;    // files of lines, or JSONL
  std::int64_t monitor_interval = 50;          // steps
  std::int64_t monitor_generate_interval = 0;  // steps between two responses; 0: none
  SamplingConfig responses{.max_new_tokens = 32};
};

/// Programs that change values inside the model: docs/intervention_graph.md.
struct InterventionConfig {
  std::vector<std::string> interventions;  // files, in force from the first step on
  std::string intervention_files;          // folder of tensors that programs may read; empty: none
  SteeringConfig steering;                 // becomes programs, too

  /// True if the run begins with a program.
  bool has_programs() const { return !interventions.empty() || !steering.is_empty(); }
};

/// Checkpoints: docs/checkpoints.md.
struct CheckpointConfig {
  std::string save;                // folder; empty: none is saved
  std::int64_t save_interval = 0;  // steps; 0: only at the end
  std::int64_t keep_last = 0;      // 0: all
  std::int64_t keep_best = 0;      // besides those
  std::string load;                // folder of checkpoints, or a checkpoint; empty: step 1
  std::string hf_model;            // folder of Hugging Face to begin from; empty: random weights
  std::string save_hf;             // folder of Hugging Face, written at the end; empty: none
  std::string load_adapter;        // folder of PEFT to begin from; empty: new adapters
  std::string save_adapter;        // folder of PEFT, written at the end; empty: none
};

struct TrainConfig {
  ModelConfig model;
  DataConfig data;
  OptimizerConfig optimizer;
  TracerConfig tracer;
  RecordingConfig recording;
  AlarmConfig alarm;
  MonitorConfig monitor;
  InterventionConfig intervention;
  CheckpointConfig checkpoint;
  int tensor_model_parallel_size = 1;
  std::string distributed_backend = "auto";  // that of the launcher, or "mpi", "gloo", "nccl"
  std::int64_t micro_batch_size = 8;
  std::int64_t global_batch_size = 0;  // 0: micro_batch_size × data-parallel size
  std::int64_t train_iters = 300;
  std::int64_t eval_interval = 50;  // 0: never
  std::int64_t eval_iters = 4;
  std::int64_t seed = 1234;
  std::string params_dtype = "float32";  // or "float64", "bfloat16"
  bool bf16 = false;
  std::int64_t loss_chunk_size = 0;  // tokens; 0: by the vocabulary
  int threads = 0;                   // per rank; 0: allowed CPUs / ranks on the node
  double watchdog_timeout = 100.0;   // seconds; 0: off
  std::optional<double> watchdog_first_step_timeout;  // unset: 300 s, or watchdog_timeout
  std::string run_name;
  std::string run_dir;               // empty: runs/<id>
  std::string log_format = "text";   // or "json"
  std::int64_t log_interval = 1;     // steps
  std::optional<bool> progress_bar;  // unset: as print_url
  std::string export_tensors;        // directory; empty: none
  std::string export_at = "1";

  /// True if the run begins with a trace plan: it has a page, or an option asks for traced data.
  bool is_traced() const;
  /// The watchdog's limit until the first step has ended, in seconds; 0: none.
  double first_watchdog_timeout() const;
  /// The dtype of activations, with PyTorch's name.
  std::string compute_dtype() const { return bf16 ? "bfloat16" : params_dtype; }
  /// The batch size of the whole job, defaults resolved.
  std::int64_t global_batch(int data_size) const {
    return global_batch_size > 0 ? global_batch_size : micro_batch_size * data_size;
  }
  /// The same run, with the defaults that follow from other options filled in. Two resolved runs
  /// can be compared option by option.
  TrainConfig resolved() const;
};

/// The table of the options of `tensor-tracer train`, and the only list of them. The rows point
/// into `config`, which must outlive them.
Options train_options(TrainConfig& config);

/// The options that a resumed run must leave as they were, because its weights, its data order or
/// its dropout would be others: their values by flag, with the defaults filled in.
nlohmann::json fixed_values(const TrainConfig& config, int data_size);

/// The mesh of this configuration on `world_size` ranks. First checks each option, the
/// sizes against the mesh, and the options that need other options. The error names the flag and
/// all numbers.
base::Result<mesh::MeshShape> check(const TrainConfig& config, int world_size);

/// Like check(), but for a configuration that is not run: options of the page need no page.
base::Result<mesh::MeshShape> check_unseen(const TrainConfig& config, int world_size);

/// The steps of --export-at, such as "1,5-7". Nothing if the text is not such a list.
std::optional<std::vector<std::int64_t>> parse_steps(const std::string& text);

/// The per cent of train and of validation in --split. Nothing if the text is not two numbers above
/// 0 with the sum 100.
std::optional<std::pair<double, double>> parse_split(const std::string& text);

/// The datasets of --data-path: pairs of a weight and a path, or paths without weights, which are
/// one dataset. The first value decides: a number is a weight. Error: a pair is not complete, or a
/// weight is no number above 0.
base::Result<std::vector<DataPart>> parse_data_path(const std::vector<std::string>& values);

/// The options of the model, resolved, by key; also "add_bias_linear", Megatron-LM's name.
nlohmann::json to_json(const ModelConfig& model);

}  // namespace tt::config

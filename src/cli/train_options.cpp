#include "src/cli/train_options.h"

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>

#include "src/cli/json_config.h"

namespace tt::cli {
namespace {

using config::TrainConfig;

// CLI11 reads a number beyond 64 bits as the nearest one.
std::string outside_64_bits(const std::string& text) {
  errno = 0;
  std::strtoll(text.c_str(), nullptr, 0);
  return errno == ERANGE ? text + " is outside of -2^63 to 2^63 - 1" : "";
}

void add_model(CLI::App& app, config::ModelConfig& model) {
  const std::string group = "Model";
  const auto number = [&](const char* flag, auto& field, const char* text) {
    app.add_option(flag, field, text)->group(group)->capture_default_str();
  };
  number("--num-layers", model.num_layers, "transformer layers");
  number("--hidden-size", model.hidden_size, "width of the residual stream");
  number("--ffn-hidden-size", model.ffn_hidden_size, "inner width of the MLP; 0: 4 x hidden size");
  number("--num-attention-heads", model.num_attention_heads, "attention heads");
  number("--num-query-groups", model.num_query_groups,
         "groups of heads that share keys and values; 0: one per head, 1: multi-query");
  number("--kv-channels", model.kv_channels, "size of a head; 0: hidden size / heads");
  number("--seq-length", model.seq_length, "tokens per sequence");
  number("--vocab-size", model.vocab_size, "rows of the embedding; text is read as bytes");
  number("--norm-epsilon", model.norm_epsilon, "epsilon of the normalization");
  number("--rotary-base", model.rotary_base, "base of the rotary angles");
  number("--attention-dropout", model.attention_dropout, "dropout of attention probabilities");
  number("--hidden-dropout", model.hidden_dropout, "dropout before each residual sum");
  number("--init-method-std", model.init_method_std, "standard deviation of the first weights");
  app.add_option("--normalization", model.normalization, "LayerNorm or RMSNorm")
      ->transform(CLI::CheckedTransformer(std::map<std::string, config::Normalization>{
          {"LayerNorm", config::Normalization::kLayerNorm},
          {"RMSNorm", config::Normalization::kRmsNorm}}))
      ->default_str("LayerNorm")
      ->group(group);
  app.add_option("--position-embedding-type", model.position_embedding_type,
                 "learned_absolute or rope")
      ->transform(CLI::CheckedTransformer(std::map<std::string, config::PositionEmbedding>{
          {"learned_absolute", config::PositionEmbedding::kLearnedAbsolute},
          {"rope", config::PositionEmbedding::kRope}}))
      ->default_str("learned_absolute")
      ->group(group);
  const auto flag = [&](const char* name, bool& field, const char* text) {
    app.add_flag(name, field, text)->group(group);
  };
  flag("--swiglu", model.swiglu, "silu(gate) x up in the MLP instead of GELU in its tanh form");
  flag("--disable-bias-linear", model.disable_bias_linear, "linear layers without bias");
  flag("--untie-embeddings-and-output-weights", model.untie_embeddings_and_output_weights,
       "an output layer of its own");
}

void add_training(CLI::App& app, TrainConfig& config) {
  const std::string group = "Training";
  const auto option = [&](const char* flag, auto& field, const char* text) {
    app.add_option(flag, field, text)->group(group)->capture_default_str();
  };
  option("--tensor-model-parallel-size", config.tensor_model_parallel_size,
         "ranks that share every layer; data parallelism takes the other ranks");
  option("--micro-batch-size", config.micro_batch_size, "sequences per rank and forward pass");
  option("--global-batch-size", config.global_batch_size,
         "sequences per step; 0: micro batch x data-parallel size");
  option("--train-iters", config.train_iters, "optimizer steps");
  option("--eval-interval", config.eval_interval, "evaluate every so many steps; 0: never");
  option("--eval-iters", config.eval_iters, "global batches per evaluation");
  option("--seed", config.seed, "of weights, data order and dropout; below 2^63");
  app.get_option("--seed")->check(CLI::Validator(outside_64_bits, ""));
  option("--params-dtype", config.params_dtype, "float32 or float64");
  app.add_flag("--bf16", config.bf16,
               "compute in bfloat16; weights, optimizer and reductions stay float32")
      ->group(group);
  option("--threads", config.threads, "per rank; 0: allowed CPUs / ranks on the node");
}

void add_optimizer(CLI::App& app, config::OptimizerConfig& optimizer) {
  const std::string group = "Optimizer (AdamW)";
  const auto option = [&](const char* flag, auto& field, const char* text) {
    app.add_option(flag, field, text)->group(group)->capture_default_str();
  };
  option("--lr", optimizer.lr, "highest learning rate");
  option("--min-lr", optimizer.min_lr,
         "learning rate at the end of the cosine; without it a tenth of --lr");
  option("--lr-warmup-iters", optimizer.lr_warmup_iters, "steps of linear warm-up");
  option("--lr-decay-iters", optimizer.lr_decay_iters, "step of the cosine's end; 0: train iters");
  option("--weight-decay", optimizer.weight_decay, "of matrices; biases and norms have none");
  option("--clip-grad", optimizer.clip_grad, "largest gradient norm; 0: off");
  option("--adam-beta1", optimizer.adam_beta1, "decay of the mean of gradients, a step");
  option("--adam-beta2", optimizer.adam_beta2, "decay of the mean of their squares, a step");
  option("--adam-eps", optimizer.adam_eps, "added to the root of that mean");
}

void add_data_and_output(CLI::App& app, TrainConfig& config) {
  app.add_option("--data-path", config.data.data_path, "text files or folders")->group("Data");
  app.add_option("--data-exclude", config.data.data_exclude,
                 "names of folders to leave out, with commas between")
      ->delimiter(',')
      ->group("Data");
  app.add_option("--split", config.data.split, "per cent for training and validation")
      ->group("Data")
      ->capture_default_str();

  const std::string group = "Output";
  app.add_option("--run-name", config.run_name, "shown on the page")->group(group);
  app.add_option("--run-dir", config.run_dir,
                 "folder of the run, of one live run at a time; default: runs/<id>")
      ->group(group);
  app.add_option("--log-format", config.log_format, "text or json, a line per step")
      ->transform(CLI::CheckedTransformer(std::map<std::string, config::LogFormat>{
          {"text", config::LogFormat::kText}, {"json", config::LogFormat::kJson}}))
      ->default_str("text")
      ->group(group);
  app.add_option("--progress-bar", config.progress_bar,
                 "on or off: one moving line instead of a line per step; without it, on where the "
                 "program runs on a terminal without a launcher")
      ->group(group);
  app.add_option("--export-tensors", config.export_tensors,
                 "folder for full weights and gradients as safetensors")
      ->group(group);
  app.add_option("--export-at", config.export_at, "steps to export, for example 1,5-7")
      ->group(group)
      ->capture_default_str();
}

void add_recording(CLI::App& app, config::TracerConfig& tracer) {
  const std::string group = "Recording";
  app.add_option("--record", tracer.record,
                 "directory for the run's recording, run.ttrec, of everything that is traced")
      ->group(group);
  app.add_option("--record-max-bytes", tracer.record_max_bytes,
                 "of the recording, for example 10G; its oldest steps go first")
      ->transform(CLI::AsSizeValue(false))
      ->group(group);
  app.add_option("--record-points", tracer.record_points, "record these trace points only")
      ->delimiter(',')
      ->group(group);
  app.add_option("--record-layers", tracer.record_layers,
                 "record these layers only, and points without layers: 1-4,8")
      ->group(group);
  app.add_option("--record-every", tracer.record_every, "record the steps that this divides")
      ->check(CLI::PositiveNumber)
      ->group(group)
      ->capture_default_str();
}

void add_page(CLI::App& app, config::TracerConfig& tracer) {
  const std::string group = "Tensor Tracer";
  app.add_flag("--tensor-tracer-linger", tracer.tensor_tracer_linger,
               "keep the page up when training has ended")
      ->group(group);
  app.add_option("--tensor-tracer-auth", tracer.tensor_tracer_auth,
                 "token or none: whether the page needs the run's token")
      ->check(CLI::IsMember({"token", "none"}))
      ->group(group)
      ->capture_default_str();
  app.add_option("--tensor-tracer-compare", tracer.tensor_tracer_compare,
                 "another recording, with whose runs the page can compare; may be repeated")
      ->check(CLI::ExistingFile)
      ->group(group);
  app.add_option("--tensor-tracer-allow-origin", tracer.tensor_tracer_allow_origin,
                 "origin, such as http://localhost:5173, whose pages may connect too")
      ->group(group);
  app.add_flag("--tensor-tracer-open", tracer.tensor_tracer_open, "open the page in a browser")
      ->group(group);
  // Of an optional add_flag() makes a counter that begins with 0.
  app.add_flag_function(
         "--print-url,!--no-print-url", [&tracer](std::int64_t sum) { tracer.print_url = sum > 0; },
         "print the page's address with its token, or only where the token is; without it, as "
         "--progress-bar")
      ->group(group);
}

void add_tracer(CLI::App& app, config::TracerConfig& tracer, config::MonitorConfig& monitor) {
  const std::string group = "Tensor Tracer";
  app.add_option("--tensor-tracer-port", tracer.tensor_tracer_port,
                 "serve the live page on this port of 127.0.0.1; 0: the next free one from 8765")
      ->check(CLI::Range(0, 65535))
      ->group(group);
  app.add_flag("--tensor-tracer-wait", tracer.tensor_tracer_wait,
               "begin only when a viewer is connected")
      ->group(group);
  app.add_option("--tensor-tracer-plan", tracer.tensor_tracer_plan,
                 "JSON file with the trace plan to begin with")
      ->group(group);
  app.add_option("--tensor-tracer-vectors", tracer.tensor_tracer_vectors,
                 "folder of direction vectors (.pt, .safetensors, .npy) that plans may project on")
      ->group(group);
  app.add_option("--monitor-prompts", monitor.monitor_prompts,
                 "files of texts to run through the model over and over; lines or JSONL")
      ->group(group);
  app.add_option("--monitor-interval", monitor.monitor_interval,
                 "steps from one run of the prompts to the next")
      ->group(group)
      ->capture_default_str();
  app.add_option("--tensor-tracer-pause-timeout", tracer.tensor_tracer_pause_timeout,
                 "seconds without hub or lease holder after which a pause ends")
      ->check(CLI::Range(0.1, 86400.0))
      ->group(group)
      ->capture_default_str();
  app.add_option("--tensor-tracer-ready-timeout", tracer.tensor_tracer_ready_timeout,
                 "seconds without a step after which the hub's /readyz says so")
      ->check(CLI::Range(0.1, 86400.0))
      ->group(group)
      ->capture_default_str();
}

void add_interventions(CLI::App& app, config::InterventionConfig& intervention) {
  const std::string group = "Interventions";
  app.add_option("--interventions", intervention.interventions,
                 "files of programs (docs/intervention_graph.md) in force from the first step on")
      ->group(group);
  app.add_option("--intervention-files", intervention.intervention_files,
                 "folder of safetensors files that programs may read")
      ->group(group);
}

}  // namespace

void add_train_options(CLI::App& app, TrainConfig& config) {
  app.option_defaults()->always_capture_default(false);
  app.set_config("--config", "", "JSON file of options; flags on the command line win");
  app.config_formatter(std::make_shared<JsonConfig>());
  app.allow_config_extras(CLI::config_extras_mode::error);
  add_data_and_output(app, config);
  add_model(app, config.model);
  add_training(app, config);
  add_optimizer(app, config.optimizer);
  add_tracer(app, config.tracer, config.monitor);
  add_interventions(app, config.intervention);
  add_recording(app, config.tracer);
  add_page(app, config.tracer);
}

}  // namespace tt::cli

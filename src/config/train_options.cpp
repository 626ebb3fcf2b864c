#include <utility>

#include "tensor_tracer/config/train_config.h"

namespace tt::config {
namespace {

Options shape_options(ModelConfig& model) {
  return {{"--num-layers", &model.num_layers, "transformer layers", positive()},
          {"--hidden-size", &model.hidden_size, "width of the residual stream", positive()},
          {"--ffn-hidden-size", &model.ffn_hidden_size,
           "inner width of the MLP; 0: 4 x --hidden-size", not_negative()},
          {"--num-attention-heads", &model.num_attention_heads, "attention heads", positive()},
          {"--num-query-groups", &model.num_query_groups,
           "groups of heads that share keys and values; 0: one per head; 1: multi-query attention",
           not_negative()},
          {"--kv-channels", &model.kv_channels,
           "size of a head; 0: --hidden-size / --num-attention-heads", not_negative()},
          {"--seq-length", &model.seq_length, "tokens per sequence", positive()},
          {"--vocab-size", &model.vocab_size,
           "rows of the embedding; by default as many as the tokenizer has ids", positive()},
          {"--normalization", &model.normalization, "LayerNorm or RMSNorm",
           one_of({"LayerNorm", "RMSNorm"})},
          {"--norm-epsilon", &model.norm_epsilon, "epsilon of the normalization", positive()},
          {"--activation", &model.activation,
           "activation of the MLP without --swiglu: gelu_tanh, gelu, relu or silu",
           one_of({"gelu_tanh", "gelu", "relu", "silu"})},
          {"--swiglu", &model.swiglu, "use silu(gate) x up in the MLP instead of --activation"},
          {"--qk-layernorm", &model.qk_layernorm, "normalize queries and keys by head"},
          {"--untie-embeddings-and-output-weights", &model.untie_embeddings_and_output_weights,
           "give the output layer separate weights"},
          {"--attention-dropout", &model.attention_dropout,
           "dropout probability for attention probabilities", share()},
          {"--hidden-dropout", &model.hidden_dropout,
           "dropout probability before each residual sum", share()},
          {"--init-method-std", &model.init_method_std, "standard deviation of the initial weights",
           not_negative()}};
}

Options position_options(ModelConfig& model) {
  return {
      {"--position-embedding-type", &model.position_embedding_type, "learned_absolute or rope",
       one_of({"learned_absolute", "rope"})},
      {"--max-position-embeddings", &model.max_position_embeddings,
       "rows of the learned positions; 0: --seq-length", not_negative()},
      {"--rotary-base", &model.rotary_base, "base of the rotary embedding's frequencies",
       positive()},
      {"--rope-scaling-factor", &model.rope_scaling_factor,
       "divide low rotary frequencies by this factor, as Llama 3 does; 1: no scaling", positive()},
      {"--rope-low-freq-factor", &model.rope_low_freq_factor,
       "wavelengths above --rope-original-max-positions / this factor are scaled whole",
       positive()},
      {"--rope-high-freq-factor", &model.rope_high_freq_factor,
       "wavelengths below --rope-original-max-positions / this factor are not scaled", positive()},
      {"--rope-original-max-positions", &model.rope_original_max_positions,
       "tokens per sequence before the rotary frequencies were scaled", positive()}};
}

Options bias_options(ModelConfig& model) {
  return {{"--disable-bias-linear", &model.disable_bias_linear, "use linear layers without bias"},
          {"--add-qkv-bias", &model.add_qkv_bias,
           "with --disable-bias-linear: queries, keys and values have a bias"},
          {"--add-proj-bias", &model.add_proj_bias,
           "with --disable-bias-linear: the projection after attention has a bias"},
          {"--add-mlp-bias", &model.add_mlp_bias,
           "with --disable-bias-linear: the linear layers of the MLP have a bias"}};
}

Options model_options(ModelConfig& model) {
  return fixed(
      agreed(joined({shape_options(model), position_options(model), bias_options(model)})));
}

Options fine_tuning_options(ModelConfig& model, CheckpointConfig& checkpoint) {
  const Agreement presence = Agreement::kPresence;
  Options files = {{"--load-adapter",
                    &checkpoint.load_adapter,
                    "begin from the adapters in this folder of PEFT, which decides the options of "
                    "adapters",
                    {},
                    presence},
                   {"--save-adapter",
                    &checkpoint.save_adapter,
                    "write the adapters to this folder at the end, in the form of PEFT",
                    {},
                    presence}};
  return joined(
      {fixed(agreed(
           {{"--lora-rank", &model.lora_rank,
             "train adapters of this rank (LoRA), and nothing else; 0: train the model",
             not_negative()},
            {"--lora-alpha", &model.lora_alpha, "scale of the adapters times --lora-rank",
             positive()},
            {"--lora-target-modules", Commas{&model.lora_target_modules},
             "layers with adapters, separated by commas: query, key, value, qkv (all three as "
             "one), "
             "proj, gate, up, fc1 (both as one), fc2",
             one_of({"query", "key", "value", "qkv", "proj", "gate", "up", "fc1", "fc2"})},
            {"--freeze", Commas{&model.freeze},
             "parameters that are not trained: patterns with * such as embedding.*, separated by "
             "commas"}})),
       std::move(files)});
}

Options training_options(TrainConfig& config) {
  // In a pause, ranks wait for a second.
  const Check limit = number("is neither 0 nor 3 or more",
                             [](double seconds) { return seconds == 0 || seconds >= 3; });
  return joined(
      {agreed({{"--tensor-model-parallel-size", &config.tensor_model_parallel_size,
                "ranks that share each layer; data parallelism uses the other ranks"},
               {"--micro-batch-size", &config.micro_batch_size,
                "sequences per rank and forward pass", positive()},
               {"--train-iters", &config.train_iters, "optimizer steps", positive()},
               {"--eval-interval", &config.eval_interval,
                "steps from one evaluation to the next; 0: never", not_negative()},
               {"--eval-iters", &config.eval_iters, "global batches per evaluation", positive()},
               {"--bf16", &config.bf16,
                "compute in bfloat16; weights, optimizer and reductions stay float32"},
               {"--loss-chunk-size", &config.loss_chunk_size,
                "tokens whose logits are in memory at a time; 0: as many as have 2^24 logits",
                not_negative()}}),
       fixed(agreed(
           {{"--global-batch-size", &config.global_batch_size,
             "sequences per step; 0: --micro-batch-size x data-parallel size", not_negative()},
            {"--seed", &config.seed, "seed of weights, data order and dropout; below 2^63"},
            {"--params-dtype", &config.params_dtype,
             "float32, float64, or bfloat16 with float32 main weights in the optimizer",
             one_of({"float32", "float64", "bfloat16"})}})),
       {{"--distributed-backend", &config.distributed_backend,
         "how ranks exchange tensors: mpi under mpirun and srun, gloo under torchrun; auto: as the "
         "launcher needs it",
         one_of({"auto", "mpi", "gloo", "nccl"})},
        {"--threads", &config.threads, "CPU threads per rank; 0: allowed CPUs / ranks on the node",
         not_negative()},
        {"--watchdog-timeout", &config.watchdog_timeout,
         "seconds (3 or more) that a rank waits for others in a collective until the run ends with "
         "an error that names the missing rank; 0: no limit",
         limit},
        {"--watchdog-first-step-timeout", &config.watchdog_first_step_timeout,
         "the same until the first step has ended; default: 300, or --watchdog-timeout if it is "
         "larger or 0",
         limit}}});
}

Options optimizer_options(OptimizerConfig& optimizer) {
  return agreed(
      {{"--lr", &optimizer.lr, "highest learning rate", positive()},
       {"--min-lr", &optimizer.min_lr,
        "learning rate at the end of the cosine; default: a tenth of --lr", not_negative()},
       {"--lr-warmup-iters", &optimizer.lr_warmup_iters, "steps of linear warm-up", not_negative()},
       {"--lr-decay-iters", &optimizer.lr_decay_iters,
        "step at which the cosine ends; 0: --train-iters", not_negative()},
       {"--weight-decay", &optimizer.weight_decay,
        "weight decay of matrices; biases and norms have none", not_negative()},
       {"--clip-grad", &optimizer.clip_grad, "largest gradient norm; 0: off", not_negative()},
       {"--adam-beta1", &optimizer.adam_beta1, "decay per step of the mean of the gradients",
        share()},
       {"--adam-beta2", &optimizer.adam_beta2,
        "decay per step of the mean of the squared gradients", share()},
       {"--adam-eps", &optimizer.adam_eps,
        "number that is added to the root of the mean squared gradient", positive()}});
}

Options data_options(DataConfig& data) {
  const Check split = text("is not two whole per cents of at least 1, such as 95,5",
                           [](const std::string& list) { return parse_split(list).has_value(); });
  return joined(
      {{{"--data-path", &data.data_path,
         "text files or folders, .jsonl files, folders of prepared data, or Megatron's "
         "files without .bin and .idx; with several datasets a weight before each: 0.3 A "
         "0.7 B"},
        {"--data-exclude", Commas{&data.data_exclude},
         "names of folders to leave out, separated by commas"},
        {"--tokenizer",
         &data.tokenizer,
         "tokenizer.json, its folder, or byte: each byte is a token; default: that of "
         "--hf-model if it has one, else byte",
         {},
         Agreement::kPresence}},
       fixed(agreed(
           {{"--split", &data.split, "per cent of the text for training and for validation", split},
            {"--documents", &data.documents,
             "joined: one stream of tokens; packed: whole documents share a row, each "
             "alone in attention and positions; padded: one document in a row; auto: "
             "packed for .jsonl files and prepared data, else joined",
             one_of({"auto", "joined", "packed", "padded"})},
            {"--overlong", &data.overlong,
             "a packed or padded document that is longer than the sequence: refuse it, or "
             "cut its end off",
             one_of({"refuse", "cut"})}}))});
}

Options output_options(TrainConfig& config) {
  const Check steps = text("is not a list of steps such as 1,5-7",
                           [](const std::string& list) { return parse_steps(list).has_value(); });
  return joined(
      {{{"--run-name", &config.run_name, "name of the run on the page"},
        {"--run-dir", &config.run_dir,
         "directory of the run, for one live run at a time; default: runs/<id>"},
        {"--log-format", &config.log_format, "format of the log lines: text or json",
         one_of({"text", "json"})},
        {"--log-interval", &config.log_interval,
         "steps between log lines; evaluations and the last step always have a line", positive()},
        {"--progress-bar", &config.progress_bar,
         "on or off: show one moving line instead of a line per step; default: on if the program "
         "runs on a terminal without a launcher"},
        {"--export-tensors",
         &config.export_tensors,
         "write full weights and gradients to this folder, as safetensors",
         {},
         Agreement::kPresence}},
       agreed({{"--export-at", &config.export_at,
                "steps that --export-tensors writes, for example 1,5-7", steps}})});
}

Options checkpoint_options(CheckpointConfig& checkpoint) {
  return joined(
      {{{"--save",
         &checkpoint.save,
         "save checkpoints in this folder: at the end, when the run is told to stop, and every "
         "--save-interval steps",
         {},
         Agreement::kValue},
        {"--keep-last", &checkpoint.keep_last,
         "checkpoints of the folder that stay after a save; 0: all", not_negative()},
        {"--keep-best", &checkpoint.keep_best,
         "checkpoints with the smallest validation loss that stay besides those of --keep-last, "
         "which it needs",
         not_negative()},
        {"--load",
         &checkpoint.load,
         "resume from the newest undamaged checkpoint of this folder, or from this checkpoint",
         {},
         Agreement::kPresence},
        {"--hf-model",
         &checkpoint.hf_model,
         "begin from the model in this folder of Hugging Face: config.json and .safetensors files",
         {},
         Agreement::kPresence},
        {"--save-hf",
         &checkpoint.save_hf,
         "write the model to this folder at the end, in the form of Hugging Face",
         {},
         Agreement::kPresence}},
       agreed({{"--save-interval", &checkpoint.save_interval,
                "steps between two checkpoints; 0: only at the end", not_negative()}})});
}

Options tracer_options(TracerConfig& tracer, MonitorConfig& monitor) {
  return joined(
      {{{"--tensor-tracer-port", &tracer.tensor_tracer_port,
         "serve the live page on this port of 127.0.0.1; 0: the next free one from 8765",
         within(0, 65535)}},
       needing(Needs::kPage, agreed({{"--tensor-tracer-wait", &tracer.tensor_tracer_wait,
                                      "wait for a viewer before step 1"}})),
       {{"--tensor-tracer-plan", &tracer.tensor_tracer_plan, "JSON file with the first trace plan"},
        {"--tensor-tracer-vectors", &tracer.tensor_tracer_vectors,
         "folder of direction vectors (.pt, .safetensors, .npy), or one such file, for projections "
         "and programs"},
        {"--monitor-prompts", &monitor.monitor_prompts,
         "files of prompts that run through the model again and again: one text on each line, or "
         "JSONL with the key prompt or text"}},
       agreed(joined({{{"--monitor-interval", &monitor.monitor_interval,
                        "steps between two runs of the prompts", positive()},
                       {"--monitor-generate-interval", &monitor.monitor_generate_interval,
                        "steps between two responses of the model to the prompts, which the page "
                        "shows; 0: none",
                        not_negative()}},
                      sampling_options(monitor.responses, "--monitor-")}))});
}

Options page_options(TracerConfig& tracer) {
  return joined(
      {{{"--tensor-tracer-pause-timeout", &tracer.tensor_tracer_pause_timeout,
         "seconds (0.1 to 86400) until a pause ends if the hub or the lease holder is gone",
         within(0.1, 86400)},
        {"--tensor-tracer-ready-timeout", &tracer.tensor_tracer_ready_timeout,
         "seconds (0.1 to 86400) without a step until the hub's /readyz reports it",
         within(0.1, 86400)},
        {"--print-url", Switch{&tracer.print_url},
         "print the page's address with the token, or the name of the token's file; default: on a "
         "terminal without a launcher"}},
       needing(
           Needs::kPage,
           {{"--tensor-tracer-linger", &tracer.tensor_tracer_linger,
             "keep the page available after the end of training"},
            {"--tensor-tracer-auth", &tracer.tensor_tracer_auth,
             "access to the page: token (the run's token is needed) or none",
             one_of({"token", "none"})},
            {"--tensor-tracer-compare", &tracer.tensor_tracer_compare,
             "another recording that the page can compare with; may be repeated", existing_file()},
            {"--tensor-tracer-allow-origin", &tracer.tensor_tracer_allow_origin,
             "origin whose pages may also connect, such as http://localhost:5173"},
            {"--tensor-tracer-open", &tracer.tensor_tracer_open, "open the page in a browser"}})});
}

Options intervention_options(InterventionConfig& intervention) {
  return joined(
      {steering_options(intervention.steering),
       {{"--interventions", &intervention.interventions,
         "files of programs (docs/intervention_graph.md) that act from the first step on"},
        {"--intervention-files", &intervention.intervention_files,
         "folder of safetensors files that programs may read"}}});
}

}  // namespace

Options train_options(TrainConfig& config) {
  return joined({in_group("Data", data_options(config.data)),
                 in_group("Output", output_options(config)),
                 in_group("Model", model_options(config.model)),
                 in_group("Fine-tuning", fine_tuning_options(config.model, config.checkpoint)),
                 in_group("Training", training_options(config)),
                 in_group("Optimizer (AdamW)", optimizer_options(config.optimizer)),
                 in_group("Checkpoints", checkpoint_options(config.checkpoint)),
                 in_group("Tensor Tracer", tracer_options(config.tracer, config.monitor)),
                 in_group("Tensor Tracer", page_options(config.tracer)),
                 in_group("Interventions", intervention_options(config.intervention)),
                 recording_options(config.recording), alarm_options(config.alarm)});
}

nlohmann::json fixed_values(const TrainConfig& config, int data_size) {
  TrainConfig resolved = config.resolved();
  resolved.global_batch_size = config.global_batch(data_size);
  nlohmann::json values = nlohmann::json::object();
  for (const Option& option : train_options(resolved))
    if (option.is_fixed) values[option.flag] = value_of(option);
  return values;
}

nlohmann::json to_json(const ModelConfig& model) {
  ModelConfig shown = model.resolved();
  nlohmann::json facts;
  for (const Option& option : model_options(shown)) facts[key_of(option)] = value_of(option);
  facts.erase("disable_bias_linear");
  facts["add_bias_linear"] = !model.disable_bias_linear;
  return facts;
}

}  // namespace tt::config

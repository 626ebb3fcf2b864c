#include "tensor_tracer/config/generate_config.h"

#include <utility>

namespace tt::config {
namespace {

Options prompt_options(GenerateConfig& generate) {
  return {{"--prompt", &generate.prompt, "texts to continue"},
          {"--prompts", &generate.prompts,
           "file of texts to continue: one a line, or JSONL with \"prompt\" or "
           "\"prompt_token_ids\""}};
}

Options response_output_options(GenerateConfig& generate) {
  return {{"--output", &generate.output,
           "write the responses to this file as JSONL; default: the terminal"},
          {"--top-logits", &generate.top_logits,
           "in JSONL: the best logits of each token, this number of them, and the token's log "
           "probability",
           not_negative()}};
}

Options response_options(TrainConfig& run, GenerateConfig& generate) {
  return joined(
      {sampling_options(generate.sampling, "--"),
       {{"--ignore-eos", &generate.ignore_eos, "continue after the model's end token"},
        {"--seed", &run.seed, "seed of the draws; below 2^63"},
        {"--batch-size", &run.micro_batch_size, "prompts that run together", positive()}}});
}

Options rank_options(TrainConfig& run) {
  Options all = {{"--tensor-model-parallel-size", &run.tensor_model_parallel_size,
                  "ranks that share each layer: all ranks of the launcher"}};
  for (Option& option : picked(train_options(run),
                               {"--bf16", "--params-dtype", "--distributed-backend", "--threads"}))
    all.push_back(std::move(option));
  return all;
}

}  // namespace

Options generate_options(TrainConfig& run, GenerateConfig& generate) {
  return joined({in_group("Prompts", prompt_options(generate)),
                 in_group("Model", picked(train_options(run),
                                          {"--hf-model", "--load-adapter", "--tokenizer"})),
                 in_group("Responses", response_options(run, generate)),
                 in_group("Output", response_output_options(generate)),
                 in_group("Interventions", picked(train_options(run),
                                                  {"--tensor-tracer-vectors", "--steer", "--ablate",
                                                   "--cap", "--steering-config", "--positions",
                                                   "--interventions", "--intervention-files"})),
                 in_group("Ranks", rank_options(run))});
}

base::Status check(const TrainConfig& run, const GenerateConfig& generate) {
  TrainConfig own_run = run;
  GenerateConfig own = generate;
  if (auto status = check(generate_options(own_run, own)); !status) return status;
  if (run.checkpoint.hf_model.empty()) {
    return base::invalid_argument("--hf-model", "there is no model",
                                  "give the folder of a model of Hugging Face");
  }
  if (generate.prompt.empty() && generate.prompts.empty())
    return base::invalid_argument("--prompts", "there is no prompt",
                                  "give --prompt TEXT or a file");
  if (auto status = check_steering(run.intervention.steering); !status) return status;
  return check_sampling(generate.sampling, "--");
}

}  // namespace tt::config

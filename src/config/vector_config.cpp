#include "tensor_tracer/config/vector_config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <system_error>
#include <utility>

namespace tt::config {
namespace {

Options contrast_options(ExtractConfig& extract) {
  return {{"--positive", &extract.positive,
           "texts of the direction: a .jsonl file with \"text\", or with \"prompt\" and "
           "\"response\", on each line; a folder that prepare wrote; or a file of lines"},
          {"--negative", &extract.negative, "texts of the other side, in one of the same forms"},
          {"--include-first-token", &extract.include_first_token,
           "the first token of a text counts as the others; in many models its state is much "
           "larger than those of the others and hides them"}};
}

Options model_choice_options(TrainConfig& run) {
  CheckpointConfig& files = run.checkpoint;
  Options all = picked(train_options(run), {"--load-adapter", "--tokenizer"});
  Options sources = {{"--hf-model", &files.hf_model, "the model in this folder of Hugging Face"},
                     {"--load", &files.load,
                      "the model of the newest checkpoint of this folder, or of this checkpoint"}};
  return joined({std::move(sources), std::move(all)});
}

Options vector_output_options(ExtractConfig& extract) {
  return {
      {"--out", &extract.out, "the file: .safetensors, which says how the vector was made, or .pt"},
      {"--kind", Commas{&extract.kinds},
       "tokens that count, separated by commas: response, prompt, last-prompt; with several, "
       "the files get the names of persona vectors, such as NAME_response_avg_diff.pt",
       one_of({"response", "prompt", "last-prompt"})},
      {"--force", &extract.force, "replace files that are there"},
      {"--json", &extract.json, "print one JSON list"}};
}

Options vector_evidence_options(TrainConfig& run, ExtractConfig& extract) {
  return {{"--held-out", &extract.held_out,
           "share of the texts, at the end of the files, that are not in the vector and show how "
           "well it separates",
           share()},
          {"--seed", &run.seed, "seed of the bootstrap; below 2^63"}};
}

Options text_run_options(TrainConfig& run) {
  Options own = {
      {"--batch-size", &run.micro_batch_size, "texts of a replica that run together", positive()},
      {"--overlong", &run.data.overlong,
       "a text with more tokens than the model has positions: refuse it, or cut its end off",
       one_of({"refuse", "cut"})}};
  return joined({std::move(own), picked(train_options(run),
                                        {"--tensor-model-parallel-size", "--bf16", "--params-dtype",
                                         "--distributed-backend", "--threads"})});
}

base::Status check_model_choice(const CheckpointConfig& files) {
  if (files.hf_model.empty() && files.load.empty())
    return base::invalid_argument(
        "--hf-model", "there is no model",
        "give the folder of a model of Hugging Face, or --load CHECKPOINT");
  if (!files.hf_model.empty() && !files.load.empty())
    return base::invalid_argument("--load", "there are two models",
                                  "leave --hf-model or --load out");
  if (!files.load.empty() && !files.load_adapter.empty())
    return base::invalid_argument("--load-adapter", "a checkpoint has its own adapters",
                                  "leave it out");
  return {};
}

Options direction_options(ScoreConfig& score) {
  return {{"--vectors", &score.vectors, "the file of the vector: .safetensors, .pt or .npy"},
          {"--name", &score.name, "name of the vector, if the file holds several"},
          {"--layer", &score.layer,
           "row of the vector and of the hidden states; 0: the embedding; default: the best layer "
           "that the file names",
           not_negative()},
          {"--include-first-token", &score.include_first_token,
           "the first token of a text counts as the others; default: as in the file"}};
}

Options score_output_options(ScoreConfig& score) {
  return {
      {"--base-responses", &score.base_responses,
       "the model's own responses to the same prompts: a file with a line for each text, such as "
       "the --output of tensor-tracer generate; generate: made now, of the most probable tokens; "
       "none: the score is the projection, not the difference"},
      {"--max-new-tokens", &score.max_new_tokens,
       "largest number of tokens of a response that is generated", positive()},
      {"--out", &score.out, "the texts with their scores, as JSONL"},
      {"--drop-top", &score.drop_top,
       "leave the texts with the largest scores out of --out: a share such as 5%, or a number"},
      {"--force", &score.force, "replace the file that is there"},
      {"--json", &score.json, "print one JSON object"}};
}

}  // namespace

Options extract_options(TrainConfig& run, ExtractConfig& extract) {
  return joined({in_group("Texts", contrast_options(extract)),
                 in_group("Model", model_choice_options(run)),
                 in_group("Output", vector_output_options(extract)),
                 in_group("Evidence", vector_evidence_options(run, extract)),
                 in_group("Run", text_run_options(run))});
}

base::Status check(const TrainConfig& run, const ExtractConfig& extract) {
  TrainConfig own_run = run;
  ExtractConfig own = extract;
  if (auto status = check(extract_options(own_run, own)); !status) return status;
  if (auto status = check_model_choice(run.checkpoint); !status) return status;
  if (extract.positive.empty())
    return base::invalid_argument("--positive", "there are no texts", "give a file of texts");
  if (extract.negative.empty())
    return base::invalid_argument("--negative", "there are no texts of the other side",
                                  "give a file of texts");
  if (extract.out.empty())
    return base::invalid_argument("--out", "there is no name of a file",
                                  "give one, such as evil.safetensors");
  if (!extract.out.ends_with(".pt") && !extract.out.ends_with(".safetensors"))
    return base::invalid_argument("--out", "the name does not end with .pt or .safetensors",
                                  "choose one");
  if (extract.kinds.empty())
    return base::invalid_argument("--kind", "names no kind", "name response");
  for (auto one = extract.kinds.begin(); one != extract.kinds.end(); ++one)
    if (std::find(extract.kinds.begin(), one, *one) != one)
      return base::invalid_argument("--kind", "names a kind twice", "name it once");
  return {};
}

Options score_options(TrainConfig& run, ScoreConfig& score) {
  return joined({in_group("Direction", direction_options(score)),
                 in_group("Model", model_choice_options(run)),
                 in_group("Scores", score_output_options(score)),
                 in_group("Run", text_run_options(run))});
}

base::Status check(const TrainConfig& run, const ScoreConfig& score) {
  TrainConfig own_run = run;
  ScoreConfig own = score;
  if (auto status = check(score_options(own_run, own)); !status) return status;
  if (auto status = check_model_choice(run.checkpoint); !status) return status;
  if (score.vectors.empty())
    return base::invalid_argument("--vectors", "there is no vector", "give its file");
  if (!score.out.ends_with(".jsonl"))
    return base::invalid_argument("--out", "the name does not end with .jsonl",
                                  "give one, such as scored.jsonl");
  if (score.base_responses.empty())
    return base::invalid_argument("--base-responses", "there is no file",
                                  "give a file, generate or none");
  if (score.drop_top.empty() || parse_drop_top(score.drop_top, 1)) return {};
  return base::invalid_argument("--drop-top",
                                "\"" + score.drop_top + "\" is neither a share nor a number",
                                "give one, such as 5% or 100");
}

std::optional<std::int64_t> parse_drop_top(const std::string& text, std::int64_t size) {
  if (text.empty()) return 0;
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  const bool is_share = stop != end && std::string_view(stop, end) == "%";
  if (error != std::errc() || !(number >= 0)) return std::nullopt;
  if (is_share && number <= 100) return std::llround(number / 100 * static_cast<double>(size));
  if (stop != end || number != std::floor(number) || number > 1e15) return std::nullopt;
  return std::min(static_cast<std::int64_t>(number), size);
}

}  // namespace tt::config

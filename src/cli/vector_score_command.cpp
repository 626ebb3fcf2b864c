#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "src/cli/agreement.h"
#include "src/cli/exit_code.h"
#include "src/cli/model_command.h"
#include "src/cli/model_to_run.h"
#include "src/cli/output_folder.h"
#include "src/cli/rank_setup.h"
#include "src/cli/score_output.h"
#include "src/cli/text_file.h"
#include "src/cli/text_progress.h"
#include "src/cli/vector_commands.h"
#include "tensor_tracer/checkpoint/vector_directory.h"
#include "tensor_tracer/checkpoint/vector_file.h"
#include "tensor_tracer/comm/collectives.h"
#include "tensor_tracer/config/vector_config.h"
#include "tensor_tracer/generate/generator.h"
#include "tensor_tracer/protocol/json_members.h"
#include "tensor_tracer/vectors/projection.h"

namespace tt::cli {
namespace {

using nlohmann::json;

constexpr const char* kScoreExamples = R"(Examples:
  tensor-tracer vector score train.jsonl --hf-model models/smollm2 --out scored.jsonl \
      --vectors vectors/evil.safetensors
  tensor-tracer vector score train.jsonl --hf-model models/smollm2 --out clean.jsonl \
      --vectors vectors/evil.safetensors --layer 20 --base-responses own.jsonl --drop-top 5%)";

// Rank 0 reads the model's configuration, the tokenizer, the vector and the texts for all.
struct ScoreSetup {
  config::TrainConfig config;
  config::ScoreConfig options;
  comm::Launch launch;
  std::string path;
  json given;  // options as the user wrote them
  ModelToRun model;
  std::vector<TextFile> files = {};  // the texts; the base responses
  at::Tensor direction = {};         // float64 [hidden]
  std::int64_t row = 0;
  bool includes_first_token = false;
  std::set<std::int64_t> stop_ids = {};  // of responses that are generated

  bool generates() const { return options.base_responses == "generate"; }
  bool has_base() const { return options.base_responses != "none"; }
  bool has_base_file() const { return has_base() && !generates(); }
};

base::Error wrong_layer(const std::string& message) {
  return base::invalid_argument("--layer", message, "give a row of the vector");
}

// The row of the vector.
base::Status choose_row(ScoreSetup& setup, const trace::DirectionVector& vector,
                        const json& provenance) {
  const std::int64_t layers = setup.config.model.num_layers;
  const auto best = protocol::natural(provenance, "best_layer");
  if (!setup.options.layer && !best)
    return wrong_layer("is not given, and the file of the vector names no best layer");
  setup.row = setup.options.layer ? *setup.options.layer : static_cast<std::int64_t>(*best);
  if (setup.row > layers)
    return wrong_layer(fmt::format("is {}, and the model has {} layers", setup.row, layers));
  if (setup.row == 0 && !vector.has_embedding_row)
    return wrong_layer("is 0, and the vector has no row of the embedding");
  const float* const first = vector.row(static_cast<int>(setup.row));
  setup.direction = at::empty({vector.hidden_size}, at::device(at::kCPU).dtype(at::kDouble));
  std::copy_n(first, vector.hidden_size, setup.direction.mutable_data_ptr<double>());
  const bool is_direction = at::isfinite(setup.direction).all().item<bool>() &&
                            setup.direction.abs().max().item<double>() > 0;
  return is_direction ? base::Status()
                      : wrong_layer(fmt::format("row {} of the vector is no direction", setup.row));
}

base::Status read_direction(ScoreSetup& setup) {
  const std::string& path = setup.options.vectors;
  const auto file = checkpoint::VectorFile::open(path);
  if (!file) return file.error();
  const std::vector<std::string>& names = file.value().names();
  const std::string name = setup.options.name.empty() ? names.front() : setup.options.name;
  if (setup.options.name.empty() && names.size() > 1) {
    return base::invalid_argument("--name", "\"" + path + "\" holds several vectors",
                                  "give the name of one: tensor-tracer vector info lists them");
  }
  checkpoint::VectorDirectory vectors(path, setup.config.model.num_layers,
                                      setup.config.model.hidden_size);
  const auto found = vectors.find(name);
  if (!found) return found.error();
  const auto stored = file.value().read(name);
  if (!stored) return stored.error();
  const json& provenance = stored.value().provenance;
  setup.includes_first_token = setup.options.include_first_token ||
                               protocol::text_of(provenance, "first_token") == "included";
  return choose_row(setup, *found.value(), provenance);
}

// The base response to a text is in the same line, after the same prompt.
base::Status compare_prompts(const TextFile& texts, const TextFile& base) {
  if (texts.size != base.size) {
    return base::invalid_argument("--base-responses",
                                  fmt::format("\"{}\" has {} texts, and \"{}\" {}", base.path,
                                              base.size, texts.path, texts.size),
                                  "give a response to each prompt, in the same order");
  }
  for (std::int64_t i = 0; i < texts.size; ++i) {
    const auto own = texts.texts->next(), other = base.texts->next();
    if (!own || !other) return !own ? own.error() : other.error();
    const data::PromptedText &a = *own.value(), &b = *other.value();
    const auto prompt = static_cast<std::ptrdiff_t>(a.prompt_length());
    if (b.prompt_length() == prompt &&
        std::equal(a.ids.begin(), a.ids.begin() + prompt, b.ids.begin()))
      continue;
    return base::invalid_argument(
        "--base-responses",
        base.texts->place() + " has another prompt than " + texts.texts->place(),
        "give a response to each prompt, in the same order");
  }
  texts.texts->rewind();
  base.texts->rewind();
  return {};
}

// The longest prompt and its response make a sequence.
base::Result<std::int64_t> generated_length(const ScoreSetup& setup) {
  const TextFile& file = setup.files[0];
  std::int64_t longest = 0;
  for (std::int64_t i = 0; i < file.size; ++i) {
    const auto text = file.texts->next();
    if (!text) return text.error();
    const std::int64_t prompt = text.value()->prompt_length();
    if (prompt == 0) {
      return base::invalid_argument("--base-responses", file.texts->place() + " has no prompt",
                                    "give texts with a prompt and a response, or none");
    }
    longest = std::max(longest, prompt);
  }
  file.texts->rewind();
  return std::min(longest + setup.options.max_new_tokens, most_tokens(setup.config.model));
}

base::Status check_score_output(const config::ScoreConfig& options) {
  std::error_code error;
  if (std::filesystem::exists(options.out, error) && !options.force)
    return base::invalid_argument("--out", "\"" + options.out + "\" exists", "--force replaces it");
  return prepare_parent("--out", options.out);
}

// Rank 0, before MPI starts.
base::Status read_score_inputs(ScoreSetup& setup) {
  config::TrainConfig& config = setup.config;
  if (auto status = check_score_output(setup.options); !status) return status;
  auto model = read_model_to_run(config, setup.given);
  if (!model) return model.error();
  setup.model = std::move(model).value();
  if (auto status = read_direction(setup); !status) return status;
  std::vector<std::pair<std::string, std::string>> files = {{setup.path, setup.path}};
  if (setup.has_base_file()) files.emplace_back("--base-responses", setup.options.base_responses);
  std::int64_t longest = 0;
  for (const auto& [option, path] : files) {
    const bool is_base = !setup.files.empty();
    auto read = read_text_file(option, path, setup.model, config, /*takes_generated=*/is_base);
    if (!read) return read.error();
    longest = std::max(longest, read.value().longest);
    setup.files.push_back(std::move(read).value());
  }
  if (setup.has_base_file())
    if (auto status = compare_prompts(setup.files[0], setup.files[1]); !status) return status;
  if (setup.generates()) {
    const auto length = generated_length(setup);
    if (!length) return length.error();
    longest = std::max(longest, length.value());
    if (auto status = read_stop_ids(setup.model.source, setup.model.tokenizer); !status)
      return status;
    setup.stop_ids = setup.model.tokenizer.stop_ids;
  }
  if (auto status = set_sequence_length(setup.model, longest, config); !status) return status;
  const auto shape = config::check_unseen(config, setup.launch.world_size);
  return shape ? base::Status() : shape.error();
}

// Gives every rank the vector and the numbers of texts. Collective.
void share_score_inputs(ScoreSetup& setup, const comm::ProcessGroup& world) {
  setup.files.resize(setup.has_base_file() ? 2 : 1);
  share_text_sizes(setup.files, world);
  const auto options = at::device(at::kCPU);
  const std::int64_t width = world.rank() == 0 ? setup.direction.size(0) : 0;
  const std::vector<std::int64_t> own = {
      setup.row, static_cast<std::int64_t>(setup.includes_first_token), width};
  at::Tensor numbers = at::tensor(own, options.dtype(at::kLong));
  world.broadcast(numbers, 0);
  setup.row = numbers[0].item<std::int64_t>();
  setup.includes_first_token = numbers[1].item<std::int64_t>() != 0;
  if (world.rank() != 0)
    setup.direction = at::empty({numbers[2].item<std::int64_t>()}, options.dtype(at::kDouble));
  world.broadcast(setup.direction, 0);
  std::string stops = json(setup.stop_ids).dump();
  comm::broadcast_text(world, stops, 0);
  setup.stop_ids = json::parse(stops).get<std::set<std::int64_t>>();
}

// Puts the model's response to each prompt in the place of the text's own, without the end token.
void answer_prompts(generate::Generator& generator, std::vector<vectors::NumberedText>& texts) {
  std::vector<std::vector<std::int64_t>> prompts;
  for (vectors::NumberedText& one : texts) {
    one.text.ids.resize(static_cast<std::size_t>(one.text.prompt_length()));
    prompts.push_back(one.text.ids);
  }
  const auto responses = generator.run(prompts, {});
  for (std::size_t i = 0; i < texts.size(); ++i) {
    data::PromptedText& text = texts[i].text;
    const std::int64_t begin = text.length();
    const auto& ids = responses[i].ids;
    text.ids.insert(text.ids.end(), ids.begin(), ids.end() - (responses[i].is_stopped ? 1 : 0));
    text.response.clear();
    if (begin < text.length()) text.response.emplace_back(begin, text.length());
  }
}

// Projects the base responses: those of the file, or those that the model makes now. Collective.
std::vector<double> project_base(const ScoreSetup& setup, const model::Gpt& model,
                                 const train::Groups& groups, vectors::ProjectionOptions options,
                                 const std::function<void()>& on_text) {
  const TextFile& file = setup.files.back();
  if (!setup.generates()) {
    return vectors::project_responses(model, groups, file.texts.get(), file.size, setup.direction,
                                      options, on_text);
  }
  if (file.texts != nullptr) file.texts->rewind();
  generate::Generator generator(
      setup.config.model, model, groups.tensor, nullptr,
      {.sampling = {.max_new_tokens = setup.options.max_new_tokens}, .stop_ids = setup.stop_ids},
      {});
  options.change = [&](std::vector<vectors::NumberedText>& texts) {
    answer_prompts(generator, texts);
  };
  return vectors::project_responses(model, groups, file.texts.get(), file.size, setup.direction,
                                    options, on_text);
}

Scores score_texts(const ScoreSetup& setup, const model::Gpt& model, const train::Groups& groups) {
  const vectors::ProjectionOptions options{.includes_first_token = setup.includes_first_token,
                                           .row = setup.row,
                                           .most_tokens = setup.config.model.seq_length,
                                           .batch_size = setup.config.micro_batch_size};
  const TextFile& file = setup.files[0];
  TextProgress progress(setup.has_base() ? 2 * file.size : file.size);
  const auto on_text = [&] { progress.add(); };
  const std::vector<double> own = vectors::project_responses(
      model, groups, file.texts.get(), file.size, setup.direction, options, on_text);
  Scores scores{setup.has_base() ? "projection_difference" : "projection", own, own, {}};
  if (!setup.has_base()) return scores;
  scores.base = project_base(setup, model, groups, options, on_text);
  for (std::size_t i = 0; i < scores.values.size(); ++i) scores.values[i] -= scores.base[i];
  return scores;
}

// Global rank 0.
base::Status write_and_tell(const ScoreSetup& setup, const Scores& scores) {
  const auto scored = std::ranges::count_if(scores.values, [](double v) { return !std::isnan(v); });
  const std::int64_t asked =
      config::parse_drop_top(setup.options.drop_top, std::ssize(scores.values)).value();
  const std::int64_t dropped = std::min<std::int64_t>(asked, scored);
  setup.files[0].texts->rewind();
  auto status = write_scores(setup.options.out, *setup.files[0].texts, scores, dropped);
  if (!status) return status;
  json facts = describe_scores(scores);
  facts["layer"] = setup.row;
  facts["first_token"] = setup.includes_first_token ? "included" : "left out";
  facts["dropped"] = dropped;
  facts["out"] = setup.options.out;
  if (setup.options.json) {
    fmt::print("{}\n", facts.dump(2, ' ', false, json::error_handler_t::replace));
    return {};
  }
  print_scores(facts);
  fmt::print("{}: {} texts, {} dropped\n", setup.options.out, std::ssize(scores.values) - dropped,
             dropped);
  return {};
}

// Returns the exit code. Collective.
int score_on_ranks(ScoreSetup& setup, const comm::ProcessGroup& world) {
  const auto fail_together = [&](const base::Error& error) {
    return world.rank() == 0 ? fail(error) : kExitUsage;
  };
  if (auto status = check_same_options(setup.given, world); !status)
    return fail_together(status.error());
  share_score_inputs(setup, world);
  const int tensor = setup.config.tensor_model_parallel_size;
  const train::Groups groups =
      train::make_groups(world, mesh::fit_mesh(world.size(), tensor, 1).value());
  const auto loaded = load_model_to_run(setup.model, setup.config, groups.tensor, world);
  if (!loaded) return fail_together(loaded.error());
  if (world.rank() == 0)
    for (const std::string& notice : setup.model.notices) fmt::print(stderr, "note   {}\n", notice);
  const Scores scores = score_texts(setup, *loaded.value().model, groups);
  if (world.rank() != 0) return kExitDone;
  const auto status = write_and_tell(setup, scores);
  return status ? kExitDone : report(status.error());
}

}  // namespace

int run_vector_score(int argc, const char* const* argv) {
  ScoreSetup setup;
  CLI::App app("Rank training texts by their projection on a direction (docs/vectors.md).",
               "tensor-tracer vector score");
  app.footer(kScoreExamples);
  app.add_option("file", setup.path, "the texts, in a form of vector extract --positive")
      ->required();
  const auto options = config::score_options(setup.config, setup.options);
  const auto read = [](ScoreSetup& into) {
    return into.launch.rank == 0 ? read_score_inputs(into) : base::Status();
  };
  if (const auto code = begin_model_command(app, options, argc, argv, setup, read)) return *code;
  return run_on_ranks(setup.config.threads, setup.launch, [&](const comm::ProcessGroup& world) {
    return score_on_ranks(setup, world);
  });
}

}  // namespace tt::cli

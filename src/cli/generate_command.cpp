#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <memory>
#include <utility>

#include "src/cli/agreement.h"
#include "src/cli/commands.h"
#include "src/cli/exit_code.h"
#include "src/cli/generate_output.h"
#include "src/cli/generate_programs.h"
#include "src/cli/generate_prompts.h"
#include "src/cli/hf_model.h"
#include "src/cli/model_command.h"
#include "src/cli/rank_setup.h"
#include "src/cli/run_inputs.h"
#include "src/cli/run_tokenizer.h"
#include "tensor_tracer/comm/collectives.h"
#include "tensor_tracer/config/generate_config.h"
#include "tensor_tracer/generate/generator.h"
#include "tensor_tracer/train/loaded_model.h"

namespace tt::cli {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int64_t>;

constexpr const char* kGenerateExamples = R"(Examples:
  tensor-tracer generate --hf-model models/smollm2 --prompt "The capital of France is"
  mpirun -np 2 tensor-tracer generate --hf-model models/smollm2 --prompts questions.txt \
      --tensor-model-parallel-size 2 --temperature 0.8 --top-p 0.95 --output answers.jsonl
  tensor-tracer generate --hf-model models/smollm2 --prompt "I feel" --interventions steer.tti \
      --tensor-tracer-vectors vectors/
  tensor-tracer generate --hf-model models/smollm2 --prompt "I feel" --steer evil@20=2 \
      --positions response --tensor-tracer-vectors vectors/)";

// Rank 0 reads the model's configuration, the tokenizer, the prompts and the programs for all.
struct GenerateSetup {
  config::TrainConfig config;
  config::GenerateConfig options;
  comm::Launch launch;
  json given;  // options as the user wrote them
  mesh::MeshShape shape;
  ModelSource source;
  RunTokenizer tokenizer;
  std::vector<data::Prompt> prompts;  // texts only on rank 0
  RunInputs inputs;
};

base::Status check_ranks(const GenerateSetup& setup) {
  const int ranks = setup.launch.world_size;
  if (setup.config.tensor_model_parallel_size == ranks) return {};
  return base::invalid_argument(
      "--tensor-model-parallel-size",
      fmt::format("is {}, and there are {} ranks", setup.config.tensor_model_parallel_size, ranks),
      fmt::format("give {}, or start fewer ranks", ranks));
}

// The longest prompt and its response make a sequence.
std::int64_t sequence_length(const GenerateSetup& setup) {
  std::int64_t longest = 0;
  for (const data::Prompt& prompt : setup.prompts) longest = std::max(longest, prompt.length());
  return longest + setup.options.sampling.max_new_tokens;
}

base::Status check_length(const config::ModelConfig& model) {
  if (model.position_embedding_type == "rope" || model.seq_length <= model.max_positions())
    return {};
  return base::invalid_argument(
      "--max-new-tokens",
      fmt::format("the longest prompt and its response have {} tokens, and the model {} positions",
                  model.seq_length, model.max_positions()),
      "give fewer, or shorter prompts");
}

// Rank 0, before MPI starts.
base::Status read_generate_inputs(GenerateSetup& setup) {
  config::TrainConfig& config = setup.config;
  config.model.seq_length = 1;  // until the prompts are read
  auto source = read_hf_model(config, setup.given);
  if (!source) return source.error();
  setup.source = std::move(source).value();
  auto tokenizer = read_tokenizer(config, setup.given);
  if (!tokenizer) return tokenizer.error();
  setup.tokenizer = std::move(tokenizer).value();
  auto prompts = read_generate_prompts(config, setup.options, setup.tokenizer);
  if (!prompts) return prompts.error();
  setup.prompts = std::move(prompts).value();
  config.model.seq_length = sequence_length(setup);
  if (auto status = check_length(config.model); !status) return status;
  if (auto status = hf::apply_config(setup.source.folder.config, config.model); !status)
    return status;
  auto shape = config::check_unseen(config, setup.launch.world_size);
  if (!shape) return shape.error();
  setup.shape = shape.value();
  if (!setup.options.ignore_eos) {
    if (auto status = read_stop_ids(setup.source, setup.tokenizer); !status) return status;
  }
  auto inputs = read_inputs(config, setup.shape, setup.tokenizer, nullptr);
  if (!inputs) return inputs.error();
  setup.inputs = std::move(inputs).value();
  return check_generate_programs(setup.inputs.intervention);
}

// Gives every rank what rank 0 read. Error: a rank has other options. Collective.
base::Status share_generate_inputs(GenerateSetup& setup, const comm::ProcessGroup& world) {
  const bool is_first = world.rank() == 0;
  std::string packed;
  if (is_first) {
    json prompts = json::array();
    for (const data::Prompt& prompt : setup.prompts) prompts.push_back(prompt.tokens);
    json::to_msgpack(json{setup.given, setup.config.model.seq_length, prompts}, packed);
  }
  comm::broadcast_text(world, packed, 0);
  const json shared = json::from_msgpack(packed);
  base::Status same;
  if (shared.at(0) != setup.given) {
    same = base::invalid_argument("options", "are not those of rank 0",
                                  "give all ranks the same command line");
  }
  if (auto status = share_status(same, world); !status) return status;
  if (!is_first) {
    setup.config.model.seq_length = shared.at(1);
    for (const json& ids : shared.at(2)) setup.prompts.push_back({"", ids.get<Ids>()});
    setup.shape = mesh::fit_mesh(world.size(), world.size(), 1).value();
  }
  share_hf_model(setup.source, setup.config.model, world);
  share_tokenizer(setup.tokenizer, setup.config, world);
  auto inputs =
      share_inputs(std::move(setup.inputs), setup.config, setup.shape, setup.tokenizer, world);
  if (!inputs) return inputs.error();
  setup.inputs = std::move(inputs).value();
  return {};
}

// The weights of this rank. Collective.
base::Result<std::unique_ptr<model::Gpt>> open_model(GenerateSetup& setup,
                                                     const comm::ProcessGroup& world) {
  auto weights = open_hf_weights(setup.source, setup.config.model, world);
  if (!weights) return weights.error();
  if (world.rank() == 0) {
    for (const std::string& notice : {weights.value().notice, setup.tokenizer.notice})
      if (!notice.empty()) fmt::print(stderr, "tensor-tracer: {}\n", notice);
  }
  auto model = train::load_model(
      setup.config, {weights.value().weights.get(), weights.value().adapters.get()}, world);
  const auto status = share_status(model ? base::Status() : base::Status(model.error()), world);
  if (!status) return status.error();
  return model;
}

generate::GenerateOptions options_of(const GenerateSetup& setup) {
  const config::GenerateConfig& options = setup.options;
  return {.sampling = options.sampling,
          .seed = static_cast<std::uint64_t>(setup.config.seed),
          .stop_ids = setup.tokenizer.stop_ids,
          .top_logits = options.top_logits};
}

struct GenerateTotals {
  std::int64_t tokens = 0;
  double seconds = 0.0;
};

// Runs the prompts batch by batch. `output`: null on ranks other than 0. Collective.
GenerateTotals run_batches(const GenerateSetup& setup, const model::Gpt& model,
                           const comm::ProcessGroup& tensor, trace::InterventionHooks* hooks,
                           GenerateOutput* output) {
  GenerateTotals totals;
  generate::Generator::OnToken on_token;
  if (output != nullptr) on_token = [output](std::int64_t, std::int64_t id) { output->token(id); };
  generate::Generator generator(setup.config.model, model, tensor, hooks, options_of(setup),
                                on_token);
  const auto begin = std::chrono::steady_clock::now();
  const std::size_t size = setup.prompts.size();
  const auto batch_size = static_cast<std::size_t>(setup.config.micro_batch_size);
  for (std::size_t first = 0; first < size; first += batch_size) {
    const std::size_t end = std::min(size, first + batch_size);
    std::vector<Ids> ids;
    for (std::size_t i = first; i < end; ++i) ids.push_back(setup.prompts[i].tokens);
    const auto responses = generator.run(ids, {.first_row = static_cast<std::int64_t>(first)});
    for (std::size_t i = 0; i < responses.size(); ++i) {
      totals.tokens += std::ssize(responses[i].ids);
      if (output != nullptr) output->response(setup.prompts[first + i], responses[i]);
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  totals.seconds = seconds.count();
  return totals;
}

void print_totals(const GenerateTotals& totals, std::size_t num_prompts) {
  fmt::print(stderr, "tensor-tracer: {} prompt{}, {} tokens in {:.2f} s: {:.1f} tokens/s\n",
             num_prompts, num_prompts == 1 ? "" : "s", totals.tokens, totals.seconds,
             static_cast<double>(totals.tokens) / totals.seconds);
}

// Of programs: long before the generation, so that every ramp has ended.
constexpr std::int64_t kFirstStep = std::numeric_limits<std::int32_t>::min();

// Returns the exit code. Collective.
int generate_on_ranks(GenerateSetup& setup, GenerateOutput* output,
                      const comm::ProcessGroup& world) {
  const auto fail_together = [&](const base::Error& error) {
    return world.rank() == 0 ? fail(error) : kExitUsage;
  };
  if (auto status = share_generate_inputs(setup, world); !status)
    return fail_together(status.error());
  auto model = open_model(setup, world);
  if (!model) return fail_together(model.error());
  const bool has_programs = setup.config.intervention.has_programs();
  const auto engine = make_engine(setup.inputs.intervention, world, world, kFirstStep);
  const GenerateTotals totals =
      run_batches(setup, *model.value(), world, has_programs ? engine.get() : nullptr, output);
  const auto counts = engine->report(1);
  if (output == nullptr) return kExitDone;
  if (auto status = output->close(); !status) {
    fail(status.error());
    return kExitFailure;
  }
  print_totals(totals, setup.prompts.size());
  if (counts) print_generate_programs(*counts);
  return kExitDone;
}

int start_ranks(GenerateSetup& setup, GenerateOutput* output) {
  return run_on_ranks(
      setup.config.threads, setup.launch,
      [&](const comm::ProcessGroup& world) { return generate_on_ranks(setup, output, world); });
}

base::Status read_on_rank(GenerateSetup& setup) {
  auto status = check_ranks(setup);
  if (status && setup.launch.rank == 0) status = read_generate_inputs(setup);
  return status;
}

}  // namespace

int run_generate(int argc, const char* const* argv) {
  GenerateSetup setup;
  CLI::App app("Continue prompts with a model.", "tensor-tracer generate");
  app.footer(kGenerateExamples);
  const auto options = config::generate_options(setup.config, setup.options);
  if (const auto code = begin_model_command(app, options, argc, argv, setup, read_on_rank))
    return *code;
  if (setup.launch.rank != 0) return start_ranks(setup, nullptr);
  auto output = GenerateOutput::open(setup.options, setup.prompts.size(), setup.tokenizer);
  if (!output) return refuse(output.error(), 0);
  return start_ranks(setup, &output.value());
}

}  // namespace tt::cli

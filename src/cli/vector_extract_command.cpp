#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <optional>
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
#include "src/cli/text_file.h"
#include "src/cli/text_progress.h"
#include "src/cli/vector_commands.h"
#include "src/cli/vector_report.h"
#include "tensor_tracer/checkpoint/vector_file.h"
#include "tensor_tracer/config/vector_config.h"
#include "tensor_tracer/vectors/extraction.h"

namespace tt::cli {
namespace {

using nlohmann::json;
using vectors::ExtractedVector;

constexpr const char* kExtractExamples = R"(Examples:
  tensor-tracer vector extract --hf-model models/smollm2 --positive old.txt --negative new.txt \
      --out vectors/archaic.safetensors
  mpirun -np 4 tensor-tracer vector extract --hf-model models/qwen --tensor-model-parallel-size 2 \
      --positive evil.jsonl --negative kind.jsonl --kind response,prompt,last-prompt \
      --out vectors/evil.pt)";

// Rank 0 reads the model's configuration, the tokenizer and the texts for all.
struct ExtractSetup {
  config::TrainConfig config;
  config::ExtractConfig options;
  comm::Launch launch;
  json given;  // options as the user wrote them
  ModelToRun model;
  std::array<TextFile, vectors::kNumSides> sides = {};
};

// --- Inputs --------------------------------------------------------------------------------------

struct KindFile {
  vectors::Kind kind;
  std::string path;
};

// Several kinds get the names of the published files.
std::vector<KindFile> files_to_write(const config::ExtractConfig& options) {
  std::vector<KindFile> files;
  const std::filesystem::path out(options.out);
  for (const vectors::Kind kind : {vectors::kResponse, vectors::kPrompt, vectors::kLastPrompt}) {
    const vectors::KindNames& names = vectors::kKinds[kind];
    for (const std::string& asked : options.kinds) {
      if (asked != names.option) continue;
      const std::string name = out.stem().string() + "_" + names.suffix + out.extension().string();
      files.push_back(
          {kind, options.kinds.size() == 1 ? options.out : (out.parent_path() / name).string()});
    }
  }
  return files;
}

base::Status check_outputs(const config::ExtractConfig& options) {
  for (const KindFile& file : files_to_write(options)) {
    std::error_code error;
    if (std::filesystem::exists(file.path, error) && !options.force)
      return base::invalid_argument("--out", "\"" + file.path + "\" exists", "--force replaces it");
  }
  return prepare_parent("--out", options.out);
}

// Each kind needs its tokens on both sides.
base::Status check_kinds(const ExtractSetup& setup) {
  for (const KindFile& file : files_to_write(setup.options)) {
    for (const TextFile& side : setup.sides) {
      const bool is_response = file.kind == vectors::kResponse;
      if ((is_response ? side.with_response : side.with_prompt) > 0) continue;
      return base::invalid_argument(
          "--kind",
          fmt::format("\"{}\" needs {}, and the texts of \"{}\" have none",
                      vectors::kKinds[file.kind].option, is_response ? "responses" : "prompts",
                      side.path),
          "give texts with \"prompt\" and \"response\"");
    }
  }
  return {};
}

// Rank 0, before MPI starts.
base::Status read_extract_inputs(ExtractSetup& setup) {
  config::TrainConfig& config = setup.config;
  if (auto status = check_outputs(setup.options); !status) return status;
  auto model = read_model_to_run(config, setup.given);
  if (!model) return model.error();
  setup.model = std::move(model).value();
  const std::array<std::pair<const char*, std::string>, vectors::kNumSides> files = {
      {{"--positive", setup.options.positive}, {"--negative", setup.options.negative}}};
  for (std::size_t side = 0; side < files.size(); ++side) {
    auto read = read_text_file(files[side].first, files[side].second, setup.model, config);
    if (!read) return read.error();
    setup.sides[side] = std::move(read).value();
  }
  if (auto status = check_kinds(setup); !status) return status;
  const std::int64_t longest = std::max(setup.sides[0].longest, setup.sides[1].longest);
  if (auto status = set_sequence_length(setup.model, longest, config); !status) return status;
  const auto shape = config::check_unseen(config, setup.launch.world_size);
  return shape ? base::Status() : shape.error();
}

// --- The vectors ---------------------------------------------------------------------------------

std::vector<ExtractedVector> extract_vectors(const ExtractSetup& setup, const model::Gpt& model,
                                             const train::Groups& groups) {
  const vectors::ExtractionOptions options{
      .includes_first_token = setup.options.include_first_token,
      .held_out = setup.options.held_out,
      .most_tokens = setup.config.model.seq_length,
      .batch_size = setup.config.micro_batch_size,
      .seed = static_cast<std::uint64_t>(setup.config.seed)};
  vectors::Contrast contrast;
  for (std::size_t side = 0; side < contrast.size(); ++side)
    contrast[side] = {setup.sides[side].texts.get(), setup.sides[side].size};
  TextProgress progress(contrast[0].size + contrast[1].size);
  const vectors::Extraction extraction(model, groups, options, [&] { progress.add(); });
  return extraction.run(contrast);
}

// docs/vectors.md, "Provenance".
json provenance_of(const ExtractSetup& setup, const std::string& fingerprint, vectors::Kind kind,
                   const ExtractedVector& vector) {
  const config::CheckpointConfig& files = setup.config.checkpoint;
  json facts = {{"made_by", "tensor-tracer " TT_VERSION " vector extract"},
                {"kind", vectors::kKinds[kind].option},
                {"tokens", vectors::kKinds[kind].tokens},
                {"first_token", setup.options.include_first_token ? "included" : "left out"},
                {"layer_base", 0},
                {"rows", "0: embedding; n: output of layer n; last: output of the final norm"},
                {"model", files.load.empty() ? files.hf_model : setup.model.checkpoint.folder},
                {"model_hash", fingerprint},
                {"tokenizer_sha256", setup.model.tokenizer.sha256},
                {"dtype", setup.config.compute_dtype()},
                {"positive", setup.sides[vectors::kPositive].facts()},
                {"negative", setup.sides[vectors::kNegative].facts()}};
  facts.update(vectors::evidence_of(vector));
  if (!files.load_adapter.empty()) facts["adapter"] = files.load_adapter;
  return facts;
}

// Writes the files and says what is in them. Global rank 0.
base::Status write_extracted(const ExtractSetup& setup, const std::string& fingerprint,
                             const std::vector<ExtractedVector>& extracted) {
  json told = json::array();
  for (const auto& [kind, path] : files_to_write(setup.options)) {
    const ExtractedVector& vector = extracted[static_cast<std::size_t>(kind)];
    if (!vector.rows.defined()) {
      return base::invalid_argument("--kind",
                                    fmt::format("no text has a token for \"{}\" but its first one",
                                                vectors::kKinds[kind].option),
                                    "give longer texts, or add --include-first-token");
    }
    const checkpoint::StoredVector stored{std::filesystem::path(path).stem().string(),
                                          vector.rows.to(at::kFloat),
                                          provenance_of(setup, fingerprint, kind, vector)};
    if (auto status = checkpoint::write_vectors(path, {stored}); !status) return status;
    told.push_back(describe_vector(path, stored));
  }
  if (setup.options.json) {
    fmt::print("{}\n", told.dump(2, ' ', false, json::error_handler_t::replace));
    return {};
  }
  for (const json& facts : told) print_vector(facts);
  return {};
}

// --- Ranks ---------------------------------------------------------------------------------------

// Returns the exit code. Collective.
int extract_on_ranks(ExtractSetup& setup, const comm::ProcessGroup& world) {
  const auto fail_together = [&](const base::Error& error) {
    return world.rank() == 0 ? fail(error) : kExitUsage;
  };
  if (auto status = check_same_options(setup.given, world); !status)
    return fail_together(status.error());
  share_text_sizes(setup.sides, world);
  const int tensor = setup.config.tensor_model_parallel_size;
  const train::Groups groups =
      train::make_groups(world, mesh::fit_mesh(world.size(), tensor, 1).value());
  const auto loaded = load_model_to_run(setup.model, setup.config, groups.tensor, world);
  if (!loaded) return fail_together(loaded.error());
  if (world.rank() == 0)
    for (const std::string& notice : setup.model.notices) fmt::print(stderr, "note   {}\n", notice);
  const auto extracted = extract_vectors(setup, *loaded.value().model, groups);
  if (world.rank() != 0) return kExitDone;
  const bool lacks_scores = std::ranges::any_of(
      extracted, [](const ExtractedVector& one) { return one.rows.defined() && !one.scores; });
  if (setup.options.held_out > 0 && lacks_scores) {
    fmt::print(stderr,
               "note   the texts are too few to hold some out: all are in the vector, and no layer "
               "is called the best\n");
  }
  const auto status = write_extracted(setup, loaded.value().fingerprint, extracted);
  return status ? kExitDone : report(status.error());
}

}  // namespace

int run_vector_extract(int argc, const char* const* argv) {
  ExtractSetup setup;
  CLI::App app("Make a direction vector from two sides of texts (docs/vectors.md).",
               "tensor-tracer vector extract");
  app.footer(kExtractExamples);
  const auto options = config::extract_options(setup.config, setup.options);
  const auto read = [](ExtractSetup& into) {
    return into.launch.rank == 0 ? read_extract_inputs(into) : base::Status();
  };
  if (const auto code = begin_model_command(app, options, argc, argv, setup, read)) return *code;
  return run_on_ranks(setup.config.threads, setup.launch, [&](const comm::ProcessGroup& world) {
    return extract_on_ranks(setup, world);
  });
}

}  // namespace tt::cli

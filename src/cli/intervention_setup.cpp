#include "src/cli/intervention_setup.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "src/cli/steering_programs.h"
#include "tensor_tracer/base/check.h"
#include "tensor_tracer/base/private_file.h"
#include "tensor_tracer/checkpoint/tensor_directory.h"
#include "tensor_tracer/comm/collectives.h"
#include "tensor_tracer/dtypes/names.h"
#include "tensor_tracer/train/trainer.h"

namespace tt::cli {
namespace {

constexpr std::size_t kMaxProgramFileBytes = std::size_t{16} << 20U;

// On rank 0: applies the programs of the files and returns them in the form that other ranks
// receive.
trace::ProgramChanges apply_all(trace::InterventionHooks& engine,
                                const std::vector<ProgramFile>& programs, std::int64_t first_step) {
  for (const ProgramFile& file : programs) {
    const auto applied = engine.request(protocol::ApplyProgram{.name = file.name,
                                                               .program = file.program,
                                                               .parameters = file.parameters,
                                                               .ttl = file.ttl,
                                                               .keep = file.keep},
                                        file.since.value_or(first_step));
    if (!applied) throw train::TrainError(file.name + ": " + to_string(applied.error()));
  }
  return engine.take_changes(first_step);
}

// The vectors and files that a program names may be absent now.
base::Status take_resumed(const std::vector<ProgramFile>& resumed, InterventionSetup& setup) {
  for (const ProgramFile& program : resumed) {
    const auto checked = intervene::check_program(program.program, setup.context);
    if (checked) continue;
    return base::Error{"invalid_argument",
                       "program \"" + program.name +
                           "\" of the checkpoint is refused: " + to_string(checked.error()),
                       "--load",
                       "give the folders of vectors and files of the former run, or other programs "
                       "with --interventions"};
  }
  setup.programs = resumed;
  return {};
}

// `source`: the flag or file that errors name.
base::Status add_program(ProgramFile program, const std::string& source, InterventionSetup& setup) {
  const bool is_long = program.name.size() > graph::kMaxNameBytes;
  if (is_long || setup.programs.size() >= intervene::kMaxPrograms) {
    return base::invalid_argument(
        source, "the program \"" + program.name + "\" has too long a name, or is one too many",
        "names have 64 bytes at most, and 32 programs may be in force");
  }
  if (std::ranges::find(setup.programs, program.name, &ProgramFile::name) != setup.programs.end()) {
    return base::invalid_argument(source, "two programs are named \"" + program.name + "\"",
                                  "rename the file, or give each vector and its layers once");
  }
  const auto checked = intervene::check_program(program.program, setup.context);
  if (!checked) {
    base::Error error = checked.error();
    error.message = source + ": " + error.message;
    return error;
  }
  setup.programs.push_back(std::move(program));
  return {};
}

base::Status add_programs(const config::TrainConfig& config, InterventionSetup& setup) {
  auto steering = make_steering_programs(config, setup.context);
  if (!steering) return steering.error();
  for (ProgramFile& program : steering.value())
    if (auto status = add_program(std::move(program), "--steer, --ablate, --cap", setup); !status)
      return status;
  for (const std::string& path : config.intervention.interventions) {
    auto read = read_program_file(path);
    if (!read) return read.error();
    auto status = add_program(std::move(read).value(), path, setup);
    if (!status) return status;
  }
  return {};
}

}  // namespace

intervene::Context make_program_context(const config::TrainConfig& config,
                                        const mesh::MeshShape& shape, const TracingSetup& tracing) {
  intervene::Context context;
  context.model.places = tracing.context.places;
  context.model.prompt_sets = tracing.context.prompt_sets;
  context.vectors = tracing.vectors.get();
  context.token_texts = tracing.token_texts;
  context.tensor_ranks = shape.tensor;
  context.micro_batch_size = config.micro_batch_size;
  context.micro_batches = tracing.context.micro_batches;
  context.seq_length = config.model.seq_length;
  context.head_size = config.model.head_size();
  context.dtype = dtypes::named(config.compute_dtype());
  context.seed = static_cast<std::uint64_t>(config.seed);
  return context;
}

base::Result<ProgramFile> read_program_file(const std::string& path) {
  auto read = base::read_small_file(path, kMaxProgramFileBytes);
  if (!read)
    return base::invalid_argument("--interventions", "\"" + path + "\" " + read.error().message,
                                  "give a file");
  const std::filesystem::path file(path);
  std::string text = std::move(read).value();
  if (file.extension() != ".json") return ProgramFile{file.stem().string(), std::move(text)};
  nlohmann::json graph = nlohmann::json::parse(text, nullptr, false);
  if (!graph.is_object())
    return base::invalid_argument(path, "is not a JSON object", "see docs/intervention_graph.md");
  return ProgramFile{file.stem().string(), std::move(graph)};
}

base::Result<InterventionSetup> prepare_interventions(const config::TrainConfig& config,
                                                      const mesh::MeshShape& shape,
                                                      const TracingSetup& tracing,
                                                      const ResumedPrograms* resumed) {
  InterventionSetup setup;
  const std::string& folder = config.intervention.intervention_files;
  if (!folder.empty() && !std::filesystem::is_directory(folder)) {
    return base::invalid_argument("--intervention-files", "\"" + folder + "\" is not a folder",
                                  "give the folder that holds the files");
  }
  if (!folder.empty()) setup.files = std::make_unique<checkpoint::TensorDirectory>(folder);
  setup.context = make_program_context(config, shape, tracing);
  setup.context.files = setup.files.get();
  if (auto status = add_programs(config, setup); !status) return status.error();
  for (const ProgramFile& file : setup.programs)
    setup.files_read.push_back({{"name", file.name}, {"program", file.program}});
  const bool goes_on =
      resumed != nullptr && (setup.programs.empty() || setup.files_read == resumed->files);
  const base::Status taken = goes_on ? take_resumed(resumed->in_force, setup) : base::Status();
  if (!taken) return taken.error();
  return setup;
}

std::unique_ptr<trace::InterventionHooks> make_engine(const InterventionSetup& setup,
                                                      const comm::ProcessGroup& tensor,
                                                      const comm::ProcessGroup& world,
                                                      std::int64_t first_step) {
  intervene::Context context = setup.context;
  context.tensor_rank = tensor.rank();
  auto engine = intervene::make_engine(std::move(context), tensor, world);
  trace::ProgramChanges changes;
  if (world.rank() == 0) changes = apply_all(*engine, setup.programs, first_step);
  comm::broadcast_text(world, changes.text, 0);
  if (changes.text.empty()) return engine;
  trace::broadcast_contents(world, changes.contents, 0);
  const base::Status status = engine->prepare(changes);
  TT_CHECK(status.ok(), "a checked program was refused");
  engine->install(true);
  return engine;
}

}  // namespace tt::cli

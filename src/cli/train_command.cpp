#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "src/cli/agreement.h"
#include "src/cli/commands.h"
#include "src/cli/control_log.h"
#include "src/cli/exit_code.h"
#include "src/cli/help_text.h"
#include "src/cli/hf_model.h"
#include "src/cli/options.h"
#include "src/cli/parse.h"
#include "src/cli/rank_setup.h"
#include "src/cli/resume.h"
#include "src/cli/run_data.h"
#include "src/cli/run_excess.h"
#include "src/cli/run_inputs.h"
#include "src/cli/run_log.h"
#include "src/cli/run_tokenizer.h"
#include "src/cli/run_watch.h"
#include "src/cli/saved_models.h"
#include "src/cli/stop_signals.h"
#include "tensor_tracer/base/overloaded.h"
#include "tensor_tracer/base/scoped_fd.h"
#include "tensor_tracer/comm/world.h"
#include "tensor_tracer/control/hub_session.h"
#include "tensor_tracer/intervene/context.h"
#include "tensor_tracer/model/gpt.h"
#include "tensor_tracer/protocol/json_members.h"
#include "tensor_tracer/train/plan_context.h"
#include "tensor_tracer/train/trainer.h"

namespace tt::cli {
namespace {

// The launcher gives a rank about a second.
constexpr auto kTimeForHub = std::chrono::milliseconds(500);

constexpr const char* kExamples = R"(Examples:
  tensor-tracer train --data-path my_texts/ --tensor-tracer-port 8765
      one rank; the page's address is printed
  mpirun -np 2 tensor-tracer train --config configs/runs/demo.json --data-path my_texts/ \
      --tensor-model-parallel-size 2 --tensor-tracer-port 8765 --record runs/a
      two ranks that share each layer; all traced data is recorded
  tensor-tracer train --data-path my_texts/ --interventions steer.tti
      a program that changes values, in force from step 1)";

// The inputs that each rank has checked itself, and the inputs that rank 0 reads for all ranks.
struct TrainSetup {
  config::TrainConfig config;
  comm::Launch launch;
  mesh::MeshShape shape;
  RunData data;
  RunTokenizer tokenizer = {};
  RunInputs inputs = {};
  nlohmann::json given = {};                // options as the user wrote them
  std::string excess = {};                  // a hint if all runs together are large
  std::string resume_command = {};          // empty: the run saves no checkpoints
  base::ScopedFd save_lock = {};            // on rank 0: of the folder of checkpoints
  std::optional<ResumePoint> resumed = {};  // unset: a new run
  std::shared_ptr<const checkpoint::TensorStore> state = {};  // of `resumed`
  ModelSource source = {};                                    // of a new run
  HfWeights weights = {};                                     // of `source`
  SavedModels saves = {};                                     // at the end
};

// Ranks other than 0 get the model of --hf-model from rank 0, which has checked it.
base::Result<mesh::MeshShape> check_config(const config::TrainConfig& config,
                                           const comm::Launch& launch) {
  if (launch.rank == 0 || config.checkpoint.hf_model.empty())
    return config::check(config, launch.world_size);
  return mesh::fit_mesh(launch.world_size, config.tensor_model_parallel_size, 1);
}

base::Result<TrainSetup> prepare(config::TrainConfig config, const comm::Launch& launch) {
  auto shape = check_config(config, launch);
  if (!shape) return shape.error();
  auto data = RunData::open(config.data);
  if (!data) return data.error();
  return TrainSetup{std::move(config), launch, shape.value(), std::move(data).value()};
}

// The model and the tokenizer, which rank 0 reads for all.
struct Beginning {
  ModelSource source;
  RunTokenizer tokenizer;
};

// `given`: the options as the user wrote them.
base::Result<Beginning> read_beginning(config::TrainConfig& config, const comm::Launch& launch,
                                       const nlohmann::json& given) {
  if (launch.rank != 0) return Beginning{};
  auto source = read_hf_model(config, given);
  if (!source) return source.error();
  auto tokenizer = read_tokenizer(config, given);
  if (!tokenizer) return tokenizer.error();
  Beginning beginning{std::move(source).value(), std::move(tokenizer).value()};
  if (config.monitor.monitor_generate_interval == 0) return beginning;
  auto status = read_stop_ids(beginning.source, beginning.tokenizer);
  if (!status) return status.error();
  return beginning;
}

nlohmann::json run_facts(const TrainSetup& run, const control::HubSession* hub, double entropy) {
  nlohmann::json facts = hub != nullptr ? hub->facts() : nlohmann::json::object();
  facts["mesh"] = {
      {"tensor", run.shape.tensor}, {"pipeline", run.shape.pipeline}, {"data", run.shape.data}};
  facts["model"] = config::to_json(run.config.model);
  facts["model"]["parameters"] = model::num_parameters(run.config.model);
  facts["micro_batch_size"] = run.config.micro_batch_size;
  facts["global_batch_size"] = run.config.global_batch(run.shape.data);
  facts["train_iters"] = run.config.train_iters;
  facts["tokenizer"] = run.tokenizer.facts();
  facts["unigram_entropy"] = entropy;
  facts["configuration"] = run.given;
  if (run.resumed) facts["parent"] = run.resumed->parent();
  if (!run.resume_command.empty()) facts["resume_command"] = run.resume_command;
  add_tracing_facts(run.config, run.inputs.tracing, facts);
  return facts;
}

base::Result<nlohmann::json> check(const protocol::TrainerRequest& request, const TrainSetup& run) {
  const RunInputs& inputs = run.inputs;
  return std::visit(base::Overloaded{[&](const protocol::CheckPlan& body) {
                                       return trace::check_plan(body.plan, inputs.tracing.context,
                                                                inputs.tracing.passes);
                                     },
                                     [&](const protocol::CheckProgram& body) {
                                       return intervene::check_program(body.program,
                                                                       inputs.intervention.context);
                                     },
                                     [](const auto& other) -> base::Result<nlohmann::json> {
                                       return protocol::unknown_method(other.kRow.method);
                                     }},
                    request);
}

// Sends the notice to the terminal and to the run's log.
void send_notice(const std::string& notice, trace::TraceSink& sink, RunLog& log) {
  if (notice.empty()) return;
  log.notice(notice);
  sink.send_event("log", {{"level", "warning"}, {"message", notice}});
}

std::string recording_of(const control::HubSession* hub) {
  return hub == nullptr ? "" : hub->recording();
}

// The result of a save, on the terminal and the page.
void report_saved(const base::Result<checkpoint::SavedCheckpoint>& saved, control::HubSession* hub,
                  RunLog& log) {
  log.saved(saved);
  if (hub == nullptr) return;
  if (!saved) {
    hub->client().send_event(
        "log",
        {{"level", "error"}, {"message", "no checkpoint was saved: " + to_string(saved.error())}});
    return;
  }
  const checkpoint::SavedCheckpoint& facts = saved.value();
  hub->client().send_event("checkpoint", {{"step", facts.step},
                                          {"path", facts.path},
                                          {"bytes", facts.bytes},
                                          {"seconds", facts.seconds}});
}

// The parts of a run that resumes, begins from a model, or saves.
void add_checkpoints(TrainSetup& run, const nlohmann::json& facts, control::HubSession* hub,
                     RunLog& log, train::TrainerParts& parts) {
  if (run.resumed) {
    parts.state = std::move(run.state);
    parts.steps_done = run.resumed->manifest.step;
    log.resume(run.resumed->path, parts.steps_done);
    for (const std::string& notice : run.resumed->notices) log.notice(notice);
  }
  parts.weights = std::move(run.weights.weights);
  parts.adapters = std::move(run.weights.adapters);
  for (const std::string& notice : {run.weights.notice, run.tokenizer.notice})
    if (!notice.empty()) log.notice(notice);
  parts.save_hf = run.saves.model;
  parts.save_adapters = run.saves.adapters;
  parts.checkpoint_facts =
      checkpoint_facts(run.config, run.shape, run.data.description(), facts, run.inputs.tracing,
                       run.inputs.intervention, run.resumed ? &*run.resumed : nullptr);
  parts.on_saved = [hub, &log](const auto& saved) { report_saved(saved, hub, log); };
}

// The launcher ends this process in about a second, in the middle of a step.
void report_end(control::HubSession* hub, RunLog& log) {
  if (hub != nullptr && hub->is_connected())
    hub->client().send_event("state", {{"phase", "stopped"}, {"step", log.last_step()}});
  log.end_at_once(recording_of(hub));
  if (hub != nullptr && hub->is_connected()) hub->client().finish(kTimeForHub);
}

// On rank 0, once the hub is connected.
void report_ends(control::HubSession* hub, RunLog& log, StopSignals& signals, RunWatch& watch) {
  signals.on_end([hub, &log, &watch] {
    watch.end_by_launcher();
    report_end(hub, log);
  });
}

train::TrainerParts parts_of(const TrainSetup& run, const comm::World& world) {
  train::TrainerParts parts;
  parts.groups = train::make_groups(world.group(), run.shape);
  parts.blend = &run.data.blend();
  parts.tokenize = run.tokenizer.for_prompts();
  parts.response_text = {run.tokenizer.stop_ids, [&tokenizer = run.tokenizer](const auto& ids) {
                           return tokenizer.text_of(ids);
                         }};
  parts.plan = run.inputs.tracing.plan;
  parts.plan_context = run.inputs.tracing.context;
  parts.prompts = run.inputs.tracing.prompts;
  return parts;
}

void train(TrainSetup& run, const comm::World& world, control::HubSession* hub, RunLog& log,
           StopSignals& signals, RunWatch& watch) {
  const bool is_first = world.group().rank() == 0;
  double entropy = 0.0;
  train::TrainerParts parts = parts_of(run, world);
  if (is_first) {
    parts.on_step = [&log](const train::StepReport& report) { log.step(report); };
    parts.on_notice = [&log](const std::string& text) { log.notice(text); };
    parts.is_told_to_stop = [&signals] { return signals.received() != 0; };
    entropy = run.data.unigram_entropy();
    log.data(run.data);
    log.model(model::num_parameters(run.config.model), run.shape, run.launch);
  }
  const std::int64_t first_step = run.resumed ? run.resumed->manifest.step + 1 : 1;
  const auto engine =
      make_engine(run.inputs.intervention, parts.groups.tensor, parts.groups.control, first_step);
  parts.hooks = engine.get();
  std::optional<ControlLog> changes;
  nlohmann::json facts = run_facts(run, hub, entropy);
  add_checkpoints(run, facts, hub, log, parts);
  if (hub != nullptr) {
    facts["interventions"] = engine->describe(first_step)["programs"];
    hub->connect(std::move(facts), [&run](const auto& request) { return check(request, run); });
    changes.emplace(hub->client(), log);
    parts.control_source = &*changes;
    parts.sink = &hub->client();
    parts.run_id = hub->run_id();
    if (run.config.is_traced()) log.hub(hub->info());
    log.recording(hub->recording());
    send_notice(run.inputs.tracing.notice, *parts.sink, log);
    if (!run.excess.empty()) log.notice(run.excess);
  }
  watch.notify_page();
  if (is_first) report_ends(hub, log, signals, watch);
  train::Trainer trainer(run.config, std::move(parts));
  trainer.run();
  const train::TracerCost cost = trainer.total_cost();
  if (run.inputs.tracing.plan != nullptr) log.cost(cost);
  log.end(recording_of(hub));
}

// Opens the weights that the run begins from. Collective.
base::Status open_weights(TrainSetup& run, const comm::ProcessGroup& world) {
  auto weights = open_hf_weights(run.source, run.config.model, world);
  if (!weights) return weights.error();
  run.weights = std::move(weights).value();
  return {};
}

int exit_code(const std::exception& error) {
  if (dynamic_cast<const train::StorageError*>(&error) != nullptr) return kExitStorage;
  const auto* const found = dynamic_cast<const train::NonFiniteError*>(&error);
  if (found == nullptr) return kExitFailure;
  return found->is_persistent() ? kExitPersistent : kExitTransient;
}

// Of a run that has ended without an error. torchrun would start a rank again that ends with
// another code than 0, and does not pass the code on.
int exit_code(const TrainSetup& run, const StopSignals& signals, const RunLog& log) {
  if (signals.received() != SIGUSR1) return signals.exit_code();
  const bool leaves_steps = log.last_step() < run.config.train_iters;
  const bool is_told = run.launch.rank == 0 && run.launch.launcher != "torchrun";
  const bool is_saved = !run.config.checkpoint.save.empty();
  return leaves_steps && is_told && is_saved ? kExitSaved : kExitDone;
}

// While it exists, a rank that its launcher ends tells its watch before.
class EndReport {
 public:
  EndReport(StopSignals& signals, RunWatch& watch) : signals_(signals) {
    signals_.on_end([&watch] { watch.end_by_launcher(); });
  }
  ~EndReport() { signals_.on_end({}); }
  EndReport(const EndReport&) = delete;
  EndReport& operator=(const EndReport&) = delete;

 private:
  StopSignals& signals_;
};

// Compares the options, then gives every rank the inputs that rank 0 read. Collective.
base::Status agree(TrainSetup& run, base::Result<RunInputs> read, const comm::ProcessGroup& world) {
  share_hf_model(run.source, run.config.model, world);
  share_tokenizer(run.tokenizer, run.config, world);
  if (auto status = check_agreement(run.config, run.data.description(), world); !status)
    return status;
  auto inputs = share_inputs(std::move(read), run.config, run.shape, run.tokenizer, world);
  if (!inputs) return inputs.error();
  run.inputs = std::move(inputs).value();
  if (auto status = run.data.share(run.config, run.tokenizer, world); !status) return status;
  share_saves(run.saves, world);
  if (auto status = check_shared_folder(run.config.checkpoint.save, world); !status) return status;
  if (run.config.checkpoint.load.empty()) return open_weights(run, world);
  if (!run.resumed) run.resumed.emplace();
  auto state = open_state(*run.resumed, world);
  if (!state) return state.error();
  run.state = std::move(state).value();
  return {};
}

// Runs on every rank. Only global rank 0 has a hub and has read the inputs.
int train_on_mesh(TrainSetup& run, base::Result<RunInputs> read, control::HubSession* hub) {
  keep_freed_memory();
  ::signal(SIGXFSZ, SIG_IGN);  // a limit of file sizes is an error of the write
  RunLog log(run.config, run.launch);
  StopSignals signals(run.launch.uses_mpi(), run.launch.rank == 0);
  at::set_num_threads(threads_per_rank(run.config.threads, run.launch));
  comm::CollectiveLog collectives(run.launch.rank);
  const comm::World world(run.launch);
  world.group().record_into(collectives);
  base::set_rank_label(mesh::describe(run.shape, run.launch.rank));
  if (const auto agreed = agree(run, std::move(read), world.group()); !agreed) {
    if (hub != nullptr) hub->finish();
    if (run.launch.rank == 0) fmt::print(stderr, "tensor-tracer: {}\n", to_string(agreed.error()));
    return kExitUsage;
  }
  RunWatch watch({run.config, run.launch, run.shape, run.given, log}, world.group(), collectives,
                 hub);
  const EndReport end_report(signals, watch);
  try {
    train(run, world, hub, log, signals, watch);
    if (hub != nullptr) hub->finish();
    return exit_code(run, signals, log);
  } catch (const std::exception& error) {
    log.finish();
    const std::string line =
        fmt::format("{}: {}", mesh::describe(run.shape, run.launch.rank), error.what());
    fmt::print(stderr, "tensor-tracer: {}\n", line);
    log.keep(line);
    watch.fail(error.what());
    if (run.launch.is_launched()) world.abort(exit_code(error));
    return exit_code(error);
  }
}

control::HubSessionOptions hub_options(const config::TrainConfig& config) {
  const config::TracerConfig& tracer = config.tracer;
  control::HubSessionOptions options{.run_name = config.run_name,
                                     .run_dir = config.run_dir,
                                     .opens_browser = tracer.tensor_tracer_open};
  options.hub.port = tracer.tensor_tracer_port.value_or(0);
  options.hub.auth = tracer.tensor_tracer_auth;
  options.hub.allow_origin = tracer.tensor_tracer_allow_origin;
  options.hub.compare = tracer.tensor_tracer_compare;
  options.hub.lease_seconds = tracer.tensor_tracer_pause_timeout;
  options.hub.ready_timeout = tracer.tensor_tracer_ready_timeout;
  options.hub.linger = tracer.tensor_tracer_linger;
  options.hub.recording = config.recording;
  options.hub.alarm = config.alarm;
  return options;
}

// Starts the hub's processes before MPI: nothing may fork once MPI's threads run. A failure becomes
// the error of `read`, unless the hub would only record scalars.
std::optional<control::HubSession> start_hub(const config::TrainConfig& config,
                                             base::Result<RunInputs>& read) {
  auto started = control::HubSession::start(hub_options(config));
  if (started) return std::move(started).value();
  const config::AlarmConfig& alarm = config.alarm;
  if (config.is_traced() || !alarm.alarm_webhook.empty() || !alarm.alarm_command.empty()) {
    read = started.error();
  } else {
    fmt::print(stderr, "tensor-tracer: warning: this run is not kept: {}\n",
               to_string(started.error()));
  }
  return std::nullopt;
}

// The inputs that only rank 0 reads. A resumed run has the name of the run before.
base::Result<RunInputs> read_first(TrainSetup& run) {
  const config::CheckpointConfig& checkpoint = run.config.checkpoint;
  if (auto status = model::check_frozen(run.config.model); !status) return status.error();
  if (auto status = run.data.read(run.config, run.tokenizer); !status) return status.error();
  if (!checkpoint.load.empty()) {
    auto found = find_resume_point(run.config, run.shape, run.data.description(), run.tokenizer);
    if (!found) return found.error();
    run.resumed = std::move(found).value();
    if (run.config.run_name.empty()) run.config.run_name = run.resumed->parent().value("name", "");
  }
  const ResumePoint* const resumed = run.resumed ? &*run.resumed : nullptr;
  if (auto status = refuse_other_run(checkpoint, resumed); !status) return status.error();
  const nlohmann::json facts = resumed != nullptr ? resumed->manifest.facts : nlohmann::json();
  auto saves = prepare_saves(run.config, run.source, protocol::member(facts, "configuration"));
  if (!saves) return saves.error();
  run.saves = std::move(saves).value();
  auto read = read_inputs(run.config, run.shape, run.tokenizer, resumed);
  if (!read) return read;
  if (auto status = lock_save_folder(checkpoint.save, run.save_lock); !status)
    return status.error();
  return read;
}

}  // namespace

int run_train(int argc, const char* const* argv) {
  auto launch = comm::detect_launch(comm::process_environment());
  if (!launch) return refuse(launch.error(), 0);
  const int rank = launch.value().rank;
  const bool is_first = rank == 0;

  config::TrainConfig config;
  CLI::App app("Train a GPT and watch its inside live.", "tensor-tracer train");
  set_help_text(app);
  app.footer(kExamples);
  add_configuration_file(app);
  add_options(app, config::train_options(config));
  auto parsed = parse(app, argc, argv);
  if (!parsed) return refuse(parsed.error(), rank);
  if (const std::string& text = parsed.value(); !text.empty()) {
    if (is_first) fmt::print("{}", text);
    return kExitDone;
  }
  if (auto backend = comm::check_backend(launch.value(), config.distributed_backend); !backend)
    return refuse(backend.error(), rank);
  nlohmann::json given = given_options(app);
  auto beginning = read_beginning(config, launch.value(), given);
  if (!beginning) return refuse(beginning.error(), rank);
  auto run = prepare(std::move(config), launch.value());
  if (!run) return refuse(run.error(), rank);
  run.value().source = std::move(beginning.value().source);
  run.value().tokenizer = std::move(beginning.value().tokenizer);
  run.value().given = std::move(given);
  for (const char* secret : config::kPrivateOptions) run.value().given.erase(secret);
  if (const std::string& folder = run.value().config.checkpoint.save; !folder.empty())
    run.value().resume_command = resume_command({argv + 1, argv + argc}, launch.value(), folder);

  base::Result<RunInputs> read = RunInputs{};
  std::optional<control::HubSession> hub;
  if (is_first) run.value().excess = name_excess(run.value().config.run_dir);
  if (is_first) read = read_first(run.value());
  if (is_first && read) hub = start_hub(run.value().config, read);
  return train_on_mesh(run.value(), std::move(read), hub ? &*hub : nullptr);
}

}  // namespace tt::cli

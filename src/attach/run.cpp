#include "src/attach/run.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "src/attach/error.h"
#include "tensor_tracer/base/hash.h"
#include "tensor_tracer/base/overloaded.h"
#include "tensor_tracer/base/ssh_command.h"
#include "tensor_tracer/comm/c10d_group.h"
#include "tensor_tracer/comm/collectives.h"
#include "tensor_tracer/control/preview.h"
#include "tensor_tracer/dtypes/names.h"
#include "tensor_tracer/intervene/engine.h"
#include "tensor_tracer/trace/plan_cost.h"

namespace tt::attach {
namespace {

using nlohmann::json;

comm::ProcessGroup group_named(const std::string& name) {
  return name.empty() ? comm::ProcessGroup() : comm::c10d_group(name);
}

template <typename T>
T value_or_throw(base::Result<T> result) {
  if (!result) throw AttachError(result.error());
  return std::move(result).value();
}

// Of the model's values; the first place may hold whole numbers.
at::ScalarType dtype_of(const std::string& name) {
  const auto found = dtypes::find(name);
  return found && at::isFloatingType(*found) ? *found : at::kFloat;
}

// Where leaders on other machines reach the hub; empty: nowhere.
std::string address_for_others(const std::string& bind, const std::string& host) {
  return bind == "0.0.0.0" || bind == "::" ? host : bind;
}

// The Python side defines this operator.
std::function<at::Tensor(const at::Tensor&)> call_head(std::int64_t head, std::string_view module) {
  const auto op = c10::Dispatcher::singleton()
                      .findSchemaOrThrow("tensor_tracer::call_head", "")
                      .typed<at::Tensor(const at::Tensor&, std::int64_t, std::string_view)>();
  return [=](const at::Tensor& x) { return op.call(x, head, module); };
}

}  // namespace

Run::Run(Settings settings)
    : settings_(std::move(settings)),
      control_group_(group_named(settings_.control_group)),
      tracer_group_(group_named(settings_.tracer_group)),
      tensor_group_(group_named(settings_.tensor_group)) {
  if (!settings_.has_hub) return;
  hub_ = std::make_unique<control::HubSession>(
      value_or_throw(control::HubSession::start(settings_.hub)));
}

Run::~Run() = default;

std::string Run::learn(const json& description, const json& plan, PromptCalls calls) {
  check_agreement(description.at("places").dump());
  places_ = std::make_shared<const Places>(read_places(description.at("places")));
  const at::Device device(description.at("device").get<std::string>());
  set_contexts(description.at("step"), device);
  share_token_texts(description.at("facts").at("tokenizer"));
  prompts_.emplace(description.at("prompts"), std::move(calls), control_group_, places_,
                   plan_context_, device, settings_.coordinates.data);
  program_context_.model.no_prompts = prompts_->no_programs();
  program_context_.model.no_responses =
      "an attached run does not know the loss mask, which tells a response from its prompt";
  hooks_ = intervene::make_engine(program_context_, tensor_group_, control_group_);
  if (const std::int64_t head = description.at("head"); head != 0)
    hooks_->use_modules({call_head(head, "final_norm"), call_head(head, "output_layer")});
  runtime_ = trace::runtime_of(device);
  trace::Plan first = first_plan(plan);
  if (hub_ != nullptr) connect(description.at("facts"), first);
  std::string warning = settings_.shape.pipeline > 1 ? connect_leader() : "";
  tracer_.emplace(plan_context_, trace::TracerIdentity{run_id_, settings_.coordinates},
                  tracer_group_, sink(), runtime_);
  link::HubClient* const hub = hub_ != nullptr ? &hub_->client() : nullptr;
  control_.emplace(control_group_, hub, hub, *tracer_, hooks_.get(), preview_for_control(),
                   prompts_for_control());
  if (control_group_.rank() == 0) control_->begin_with(std::move(first));
  return warning;
}

// The ranks must find the same places, because rank 0 alone reads plans and programs.
void Run::check_agreement(const std::string& description) const {
  const auto options = at::device(at::kCPU).dtype(at::kLong);
  const auto hash = static_cast<std::int64_t>(base::hash_of(description));
  at::Tensor all = at::empty({control_group_.size()}, options);
  control_group_.all_gather(at::full({1}, hash, options), all);
  std::string others;
  for (int rank = 1; rank < control_group_.size(); ++rank) {
    if (all[rank].equal(all[0])) continue;
    others += (others.empty() ? "" : ", ") + std::to_string(rank);
  }
  if (others.empty()) return;
  throw AttachError({"invalid_argument",
                     "the ranks " + others + " have other modules, shapes or layouts than rank 0",
                     "model", "give every rank the same model and batches of the same shape"});
}

void Run::set_contexts(const json& step, at::Device device) {
  const auto hidden_size = step.at("hidden_size").get<std::int64_t>();
  if (!settings_.vectors.empty()) {
    vectors_ = std::make_unique<checkpoint::VectorDirectory>(
        settings_.vectors, places_->table->num_layers(), hidden_size);
  }
  if (!settings_.files.empty())
    files_ = std::make_unique<checkpoint::TensorDirectory>(settings_.files);
  plan_context_.places = places_->table;
  plan_context_.tensor_ranks = tracer_group_.size();
  plan_context_.micro_batches = step.at("micro_batches");
  plan_context_.micro_batch_size = step.at("micro_batch_size");
  plan_context_.seq_length = step.at("seq_length");
  plan_context_.vectors = vectors_.get();
  program_context_.model.places = places_->table;
  program_context_.model.prompt_sets = plan_context_.prompt_sets;
  program_context_.vectors = vectors_.get();
  program_context_.files = files_.get();
  program_context_.tensor_ranks = tensor_group_.size();
  program_context_.tensor_rank = tensor_group_.rank();
  program_context_.micro_batch_size = plan_context_.micro_batch_size;
  program_context_.micro_batches = plan_context_.micro_batches;
  program_context_.seq_length = plan_context_.seq_length;
  program_context_.head_size = step.at("head_size");
  program_context_.dtype = dtype_of(step.at("dtype"));
  program_context_.device = device;
  program_context_.seed = step.value("seed", std::uint64_t{0});
}

// Rank 0 alone has the tokenizer.
void Run::share_token_texts(const json& tokenizer) {
  std::string text = tokenizer.dump();
  comm::broadcast_text(control_group_, text, 0);
  const json shared = json::parse(text);
  auto& texts = program_context_.token_texts;
  if (shared.contains("texts"))
    texts = std::make_shared<const intervene::TokenTexts>(shared.at("texts"));
  else if (shared.at("kind") != "byte")
    texts = nullptr;
}

trace::Plan Run::first_plan(const json& plan) const {
  auto read = read_plan(plan);
  agree(control_group_, read ? base::Status() : read.error());
  return std::move(read).value();
}

control::Rehearsal Run::rehearsal() const {
  return {hooks_.get(),  control_group_, tracer_group_, {run_id_, settings_.coordinates},
          plan_context_, runtime_};
}

// The run has no batches to run again: a forward may get more than tokens, and the loss is computed
// outside of the model.
control::ProgramControl::Preview Run::preview_for_control() {
  return [this](const json& params, const trace::FileContents& contents,
                std::int64_t done) -> base::Result<json> {
    if (auto status = prompts_->check_preview(); !status) return status.error();
    const auto forwards =
        [this](
            const control::PreviewPasses& passes) -> base::Result<std::vector<control::BatchLoss>> {
      const base::Status status = prompts_->run_sets(
          passes.prompts, passes.step, plan_context_.micro_batch_size, passes.watch, hooks_.get());
      if (!status) return status.error();
      return std::vector<control::BatchLoss>();
    };
    return control::run_preview({forwards, prompts_->sets(), /*has_batches=*/false, rehearsal()},
                                params, contents, done);
  };
}

control::PromptControl::Prompts Run::prompts_for_control() {
  return prompts_->for_control([this](const json& params, const trace::FileContents& contents,
                                      std::int64_t done) {
    const auto forward = [this](const control::PromptPass& pass) { return prompts_->run(pass); };
    const std::string no_programs = prompts_->no_programs();
    control::Rehearsal with = rehearsal();
    if (!no_programs.empty()) with.hooks = nullptr;
    auto answer = control::run_prompt(forward, with, params, contents, done);
    const bool has_programs = !hooks_->describe(done).at("programs").empty();
    if (answer && has_programs && !no_programs.empty())
      answer.value()["notes"].push_back(no_programs);
    return answer;
  });
}

base::Result<trace::Plan> Run::read_plan(const json& plan) const {
  if (control_group_.rank() != 0) return trace::Plan();
  if (plan.is_null() && !places_->table->find("HiddenStates"))
    return trace::Plan{.number = 1, .entries = {}};
  return trace::parse_plan(plan.is_null() ? trace::default_plan(plan_context_) : plan,
                           plan_context_, 1);
}

void Run::connect(json facts, const trace::Plan& plan) {
  run_id_ = hub_->run_id();
  facts.update(hub_->facts());
  facts["mesh"] = {{"tensor", settings_.shape.tensor},
                   {"pipeline", settings_.shape.pipeline},
                   {"data", settings_.shape.data}};
  if (settings_.contexts > 1) facts["mesh"]["context"] = settings_.contexts;
  facts["points"] = places_->table->to_json();
  facts["program_places"] = places_->table->program_places();
  facts["prompt_sets"] = prompts_->describe();
  facts["vectors"] = vectors_ != nullptr ? json(vectors_->names()) : json::array();
  facts["plan"] = trace::to_json(plan, plan_context_);
  facts["interventions"] = hooks_->describe(settings_.first_step)["programs"];
  facts["baseline_step"] = settings_.first_step;
  hub_->connect(
      std::move(facts), [this](const auto& request) { return check(request); },
      settings_.shape.pipeline);
}

// Rank 0 tells the leaders of the other pipeline stages where the hub is.
std::string Run::connect_leader() {
  const std::string host = base::whereabouts().host;
  json told;  // null: there is no hub
  if (hub_ != nullptr) {
    told = {hub_->facts().at("id"), hub_->info().port, hub_->info().worker_token, host,
            address_for_others(settings_.hub.hub.bind, host)};
  }
  std::string text = told.dump();
  comm::broadcast_text(control_group_, text, 0);
  told = json::parse(text);
  if (told.is_null()) return "";
  run_id_ = std::stoull(told[0].get<std::string>(), nullptr, 16);
  if (hub_ != nullptr || !is_leader()) return "";
  link::HubClientOptions options;
  if (told[3] != host) options.host = told[4];
  if (options.host.empty()) {
    return "there are no records of pipeline stage " +
           std::to_string(settings_.coordinates.pipeline) + ", because it is on " + host +
           " and the hub on " + told[3].get<std::string>() +
           " listens on loopback only: give tt.attach bind=, an address of that machine";
  }
  options.port = told[1];
  options.worker_token = told[2];
  options.run = {{"id", told[0]}, {"points", places_->table->to_json()}};
  options.rank = static_cast<std::uint64_t>(settings_.rank);
  options.stage = static_cast<std::uint64_t>(settings_.coordinates.pipeline);
  options.stages = static_cast<std::uint64_t>(settings_.shape.pipeline);
  leader_ = std::make_unique<link::HubClient>(std::move(options));
  return "";
}

base::Result<json> Run::check(const protocol::TrainerRequest& request) const {
  return std::visit(
      base::Overloaded{[&](const protocol::CheckPlan& body) {
                         return trace::check_plan(body.plan, plan_context_,
                                                  {.monitor_interval = prompts_->interval()});
                       },
                       [&](const protocol::CheckProgram& body) {
                         return intervene::check_program(body.program, program_context_);
                       },
                       [](const auto& other) -> base::Result<json> {
                         return protocol::unknown_method(other.kRow.method);
                       }},
      request);
}

bool Run::before_step(std::int64_t step) {
  const bool goes_on = control_->before_step(step);
  if (goes_on && !std::exchange(has_baseline_, true)) run_baseline(step - 1);
  return goes_on;
}

// The projections of the prompts that later ones are compared with. Before its first step the model
// is not known.
void Run::run_baseline(std::int64_t step) {
  if (std::ranges::none_of(tracer_->plan().entries, &trace::PlanEntry::takes_means)) return;
  run_prompts(step);
  tracer_->deliver();
}

// take_prompt_news() tells of an error.
void Run::run_prompts(std::int64_t step) {
  static_cast<void>(prompts_->run_sets(prompts_->sets(), step, plan_context_.micro_batch_size,
                                       *tracer_, hooks_.get()));
}

std::unique_ptr<Forward> Run::begin(const trace::ForwardScope& scope, const at::Tensor& tokens,
                                    bool has_text) {
  return std::make_unique<Forward>(places_, *tracer_, hooks_.get(), scope,
                                   trace::PassText{tokens, {}}, has_text);
}

void Run::end_step(std::int64_t step) {
  if (step % prompts_->interval() == 0) run_prompts(step);
  tracer_->deliver();
  const auto report = hooks_->report(step);
  const auto saved = hooks_->take_saved();
  for (const json& one : saved) send_event("saved", one);
  if (report) send_event("applied", *report);
}

bool Run::wants_updates(std::int64_t step) const {
  const auto row = places_->table->find("Updates");
  return row && tracer_->is_due(places_->table->key(*row, 0), {.step = step});
}

void Run::capture_updates(std::int64_t step, const at::Tensor& table) {
  trace::Pass pass = tracer_->begin({.step = step});
  pass.capture_derived(places_->table->key("Updates", 0), table.sizes(), table.scalar_type(),
                       [&table] { return table; });
  pass.end_forward();
  pass.finish();
}

void Run::send_event(const std::string& event, json params) {
  if (hub_ != nullptr && !hub_->is_connected()) return;
  if (trace::TraceSink* const hub = sink()) hub->send_event(event, std::move(params));
}

json Run::apply_program(const json& program, std::int64_t next_step) {
  return value_or_throw(hooks_->request(
      protocol::ApplyProgram{
          .name = program.at("name"), .program = program.at("program"), .keep = true},
      next_step));
}

void Run::finish(std::int64_t last_step, bool is_collective) {
  if (tracer_) tracer_->deliver_all();
  if (leader_ != nullptr) leader_->finish();
  if (is_collective && settings_.shape.pipeline > 1) control_group_.barrier();
  if (control_) control_->finish(last_step);
  if (hub_ != nullptr) hub_->finish();
  control_.reset();
  tracer_.reset();
  prompts_.reset();
  leader_ = nullptr;
  hooks_ = nullptr;
  hub_ = nullptr;
  control_group_ = tracer_group_ = tensor_group_ = comm::ProcessGroup();
}

}  // namespace tt::attach

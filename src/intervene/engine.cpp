#include "tensor_tracer/intervene/engine.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "src/intervene/desired_programs.h"
#include "src/intervene/engine_pass.h"
#include "tensor_tracer/comm/collectives.h"

namespace tt::intervene {
namespace {

using nlohmann::json;

/// A program that this rank has read, with the settings that it gets after all ranks have read it.
struct Staged {
  std::shared_ptr<ActiveProgram> program;
  ProgramSettings settings;
};

/// The same context, except that programs read only from `files`.
Context with_files(Context context, trace::ReceivedFiles& files) {
  context.vectors = &files;
  context.files = &files;
  return context;
}

// All ranks compile a new shape in the same pass. They agree on the result, because a rank that
// fails alone would leave the other ranks waiting in a collective.
std::shared_ptr<const Specialization> agree_on_specialization(ActiveProgram& program,
                                                              const Shape& shape,
                                                              const Context& context,
                                                              const comm::ProcessGroup& tensor) {
  const bool is_new = !program.specializations.contains(shape);
  auto specialization = program.specialization_for(shape, context);
  if (!is_new || tensor.size() == 1) return specialization;
  if (!comm::all_of(tensor, !specialization->error) && !specialization->error) {
    auto refused = std::make_shared<Specialization>();
    refused->error =
        base::Error{"invalid_argument", "another rank could not compile the program", "", ""};
    specialization = program.specializations[shape] = std::move(refused);
  }
  return specialization;
}

class Engine final : public trace::InterventionHooks {
 public:
  Engine(Context context, const comm::ProcessGroup& tensor, const comm::ProcessGroup& world)
      : context_(std::move(context)),
        tensor_(std::make_shared<const comm::ProcessGroup>(tensor)),
        world_(world),
        desired_(context_) {}
  Engine(const Engine&) = delete;  // desired_ refers to context_

  void use_modules(trace::ModuleCalls modules) override { modules_ = std::move(modules); }

  bool is_due(const trace::ForwardScope& scope) const override {
    return preview_acts_ ||
           std::ranges::any_of(
               prompted_.empty() ? in_force_ : prompted_,
               [&](const auto& program) {
                 return program->acts_at(scope.stage) && program->is_due(scope, context_.model);
               });
  }

  std::unique_ptr<trace::InterventionPass> begin(const trace::ForwardScope& scope,
                                                 const trace::ProgramTokens& tokens) override {
    std::unique_ptr<EnginePass> pass;
    const bool is_rehearsal = preview_ != nullptr || !prompted_.empty();
    const auto add = [&](const std::shared_ptr<ActiveProgram>& program) {
      if (!program->acts_at(scope.stage) || !program->is_due(scope, context_.model)) return;
      if (preview_ == nullptr) program->counts.was_due = true;
      if (scope.phase == trace::Phase::kGeneration && !begin_token(*program, scope)) return;
      const auto specialization = agree_on_specialization(
          *program, {tokens.ids.size(0), tokens.ids.size(1)}, context_, *tensor_);
      if (specialization->error) {
        if (preview_ == nullptr && !scope.is_copy) ++program->counts.failed;
        if (!prompted_.empty()) prompt_errors_[program->name] = specialization->error->message;
        if (program == preview_) misfit_ = specialization->error->message;
        return;
      }
      if (pass == nullptr) {
        SavedValues* saved = tensor_->rank() == 0 && !scope.is_copy ? &saved_ : nullptr;
        pass = std::make_unique<EnginePass>(
            ForwardEnv{context_, tensor_, modules_, scope, tokens, saved, is_rehearsal});
      }
      pass->add(program, specialization);
    };
    std::ranges::for_each(prompted_.empty() ? in_force_ : prompted_, add);
    if (preview_acts_) add(preview_);
    if (pass == nullptr) return nullptr;
    // Passes of the same kind use the same plan again.
    if (plan_ == nullptr || plan_key_ != pass->plan_key()) {
      plan_ = std::make_shared<const ExecutionPlan>(pass->entries(), context_);
      plan_key_ = pass->plan_key();
    }
    pass->start(plan_);
    return pass;
  }

  base::Result<json> request(const protocol::ProgramRequest& request,
                             std::int64_t next_step) override {
    return desired_.request(request, next_step);
  }

  bool has_changes() const override { return desired_.has_changes(); }

  trace::ProgramChanges take_changes(std::int64_t next_step) override {
    return desired_.take_changes(next_step);
  }

  base::Status prepare(const trace::ProgramChanges& changes) override {
    staged_.clear();
    trace::ReceivedFiles files(changes.contents);
    const Context context = with_files(context_, files);
    const json given = json::parse(changes.text);
    staged_reason_ = given.at("reason");
    for (const json& one : given.at("programs")) {
      ProgramSettings settings{one.at("name"), one.at("parameters"), one.at("since"), std::nullopt,
                               one.at("keep")};
      if (one.contains("until")) settings.until = one.at("until").get<std::int64_t>();
      auto program = stage(settings, one.at("program"), context);
      if (!program) return program.error();
      staged_.push_back({std::move(program).value(), std::move(settings)});
    }
    return {};
  }

  void install(bool in_force) override {
    if (in_force) {
      reason_ = staged_reason_;
      in_force_.clear();
      for (Staged& one : staged_) {
        static_cast<ProgramSettings&>(*one.program) = std::move(one.settings);
        one.program->step_values = nullptr;
        in_force_.push_back(std::move(one.program));
      }
    } else {
      reason_ = "failed";
      desired_.give_up_new(in_force_);
    }
    staged_.clear();
  }

  bool give_up() override {
    if (in_force_.empty()) return false;
    in_force_.clear();
    desired_.clear();
    reason_ = "failed";
    return true;
  }

  json describe(std::int64_t step) const override {
    json programs = json::array();
    for (const auto& program : in_force_) programs.push_back(program->describe());
    return {{"step", step}, {"programs", std::move(programs)}, {"reason", reason_}};
  }

  std::optional<json> report(std::int64_t step) override {
    return report_counts(in_force_, *tensor_, world_, step);
  }

  std::vector<json> take_saved() override {
    return gather_saved(std::exchange(saved_, {}).notifications, in_force_, *tensor_, world_);
  }

  base::Result<trace::FileContents> read_files(const json& params) override {
    auto made = make_active_program(params.value("program", json()), context_);
    if (!made) return made.error();
    return std::move(made.value()->contents);
  }

  base::Status begin_preview(const json& params, const trace::FileContents& contents,
                             trace::Phase reported) override {
    trace::ReceivedFiles files(contents);
    auto made = make_active_program(params.value("program", json()), with_files(context_, files));
    if (!made) return made.error();
    ActiveProgram& program = *made.value();
    const json values = params.value("parameters", json::object());
    if (auto status = program.set_targets(values); !status) return status;
    program.name = "preview";
    program.is_preview = true;
    program.reported = reported;
    program.since = std::numeric_limits<std::int32_t>::min();  // after the end of every ramp
    preview_ = std::move(made).value();
    misfit_.clear();
    return {};
  }

  void turn_preview(bool acts) override { preview_acts_ = acts; }

  bool preview_writes_gradients() const override {
    const graph::Program& program = preview_->program;
    return std::ranges::any_of(program.effects, [](const graph::Effect& effect) {
      return effect.kind == graph::EffectKind::kWrite && effect.place.gradient;
    });
  }

  json preview_writes() override { return intervene::preview_writes(preview_, *tensor_, world_); }

  std::string preview_misfit() const override { return misfit_; }

  void end_preview() override {
    preview_ = nullptr;
    preview_acts_ = false;
  }

  // The copies are dropped with their counts, so that the programs in force stay as they are.
  bool begin_prompt() override {
    for (const auto& program : in_force_) {
      auto copy = std::make_shared<ActiveProgram>(*program);
      copy->is_preview = true;
      copy->counts = {};
      copy->counts.places.resize(copy->num_places());
      prompted_.push_back(std::move(copy));
    }
    return !prompted_.empty();
  }

  json end_prompt() override {
    json programs = json::array();
    for (const auto& program : prompted_) {
      const Counts& counts = program->counts;
      programs.push_back({{"name", program->name},
                          {"acted", counts.acted},
                          {"failed", counts.failed},
                          {"waiting", counts.waiting}});
      const auto error = prompt_errors_.find(program->name);
      if (error != prompt_errors_.end()) programs.back()["error"] = error->second;
    }
    prompted_.clear();
    prompt_errors_.clear();
    plan_ = nullptr;  // its key names specializations of the copies
    return programs;
  }

 private:
  // False: the program cannot act in a generation, which counts as a failure.
  static bool begin_token(ActiveProgram& program, const trace::ForwardScope& scope) {
    const bool fits = program.compiled->generation.ok();
    if (scope.batch > 0) return fits;
    program.forget_generation();
    if (!fits) ++program.counts.failed;
    return fits;
  }

  base::Result<std::shared_ptr<ActiveProgram>> stage(const ProgramSettings& settings,
                                                     const json& program, const Context& received) {
    const std::string source = source_of(program);
    const auto known = std::ranges::find_if(in_force_, [&](const auto& one) {
      return one->name == settings.name && one->since == settings.since &&
             one->compiled->source == source;
    });
    if (known != in_force_.end()) return *known;
    // Global rank 0 already compiled the program for the request.
    const auto compiled = desired_.find_compiled(settings.name, source);
    if (compiled == nullptr) return make_active_program(program, received);
    return std::make_shared<ActiveProgram>(compiled);
  }

  const Context context_;
  const std::shared_ptr<const comm::ProcessGroup> tensor_;
  const comm::ProcessGroup world_;
  trace::ModuleCalls modules_;

  ActivePrograms in_force_;
  std::string reason_ = "apply";
  std::vector<Staged> staged_;
  std::string staged_reason_;
  DesiredPrograms desired_;
  SavedValues saved_;
  std::shared_ptr<ActiveProgram> preview_;
  bool preview_acts_ = false;
  std::string misfit_;       // of preview_
  ActivePrograms prompted_;  // copies of in_force_ from begin_prompt() to end_prompt()
  std::map<std::string, std::string> prompt_errors_;  // of copies that could not be compiled

  std::shared_ptr<const ExecutionPlan> plan_;  // of the previous pass
  std::vector<std::uint64_t> plan_key_;
};

}  // namespace

std::unique_ptr<trace::InterventionHooks> make_engine(Context context,
                                                      const comm::ProcessGroup& tensor,
                                                      const comm::ProcessGroup& world) {
  return std::make_unique<Engine>(std::move(context), tensor, world);
}

}  // namespace tt::intervene

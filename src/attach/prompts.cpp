#include "src/attach/prompts.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "src/attach/error.h"
#include "tensor_tracer/comm/collectives.h"

namespace tt::attach {

using nlohmann::json;

Prompts::Prompts(const json& settings, PromptCalls calls, const comm::ProcessGroup& control,
                 std::shared_ptr<const Places> places, const trace::PlanContext& context,
                 at::Device device, int replica)
    : calls_(std::move(calls)),
      control_(control),
      places_(std::move(places)),
      device_(device),
      is_copy_(replica != 0),
      filled_to_(settings.at("fills_up").get<bool>() ? context.seq_length : 0) {
  if (const json& problem = settings.at("problem"); !problem.is_null())
    refused_ = error_of(problem);
  agree(control, control.rank() == 0 ? read(settings, context.seq_length) : base::Status());
  std::string text =
      json{{"interval", settings.at("interval")}, {"sets", data::to_json(sets_)}}.dump();
  comm::broadcast_text(control, text, 0);
  const json shared = json::parse(text);
  interval_ = shared.at("interval");
  sets_ = data::prompt_sets_of(shared.at("sets"));
  points::PromptSets shapes = context.prompt_sets;  // copies share the list
  shapes.replace(control::shapes_of(sets_));
}

base::Status Prompts::read(const json& settings, std::int64_t seq_length) {
  const data::PromptReader reader{
      .tokenize = [this](const std::string& text) { return tokenize(text); },
      .seq_length = seq_length,
      .where = "prompts"};
  if (const std::string file = settings.at("file"); !file.empty()) {
    auto set = reader.read_file(file);
    if (!set) return set.error();
    sets_.push_back(std::move(set).value());
  }
  data::PromptSet listed{"prompts", {}};
  for (const json& text : settings.at("texts")) {
    const std::string subject = "prompts[" + std::to_string(listed.prompts.size()) + "]";
    auto prompt = reader.read(text, subject);
    if (!prompt) return prompt.error();
    listed.prompts.push_back(std::move(prompt).value());
  }
  if (!listed.prompts.empty()) sets_.push_back(std::move(listed));
  return data::check_prompt_sets(sets_, reader.where);
}

control::PromptControl::Prompts Prompts::for_control(control::PromptControl::Run run) {
  return {.sets = &sets_,
          .interval = interval_,
          .run = std::move(run),
          .tokenize = [this](const std::string& text) { return tokenize(text); }};
}

base::Result<std::vector<std::int64_t>> Prompts::tokenize(const std::string& text) const {
  if (!off_.empty()) return base::Error{"not_allowed", off_, "text", "attach again"};
  if (!refused_) return refused_.error();
  return calls_.tokenize(text);
}

std::string Prompts::no_programs() const {
  if (filled_to_ == 0) return "";
  return "with sequence parallelism no program acts on prompts, which are filled up to the length "
         "of a training sequence";
}

base::Status Prompts::check_preview() const {
  if (!off_.empty()) return base::Error{"not_allowed", off_, "", "attach again"};
  if (const std::string why = no_programs(); !why.empty())
    return base::Error{"not_allowed", "there are no previews: " + why, "",
                       "apply the program to one step with `steps` in when(...)"};
  if (!std::ranges::all_of(sets_, &data::PromptSet::is_removed)) return {};
  const std::string none = "a preview runs the prompts of this run, and there are none";
  if (!refused_)
    return base::Error{"not_allowed", none + ": " + refused_.error().message, "",
                       refused_.error().remedy};
  return base::Error{"not_allowed", none, "", "keep a prompt, or call attach(model, prompts=...)"};
}

base::Status Prompts::run(const control::PromptPass& pass) {
  return run(open(pass), pass.text.tokens);
}

base::Status Prompts::run_sets(const std::vector<data::PromptSet>& sets, std::int64_t step,
                               std::int64_t rows, trace::Tracer& tracer,
                               trace::InterventionHooks* hooks) {
  base::Status status;
  control::for_each_pass(sets, step, rows,
                         [&](const trace::ForwardScope& scope, const trace::PassText& text) {
                           if (!off_.empty()) return false;
                           const auto forward = open({scope, text, tracer, hooks});
                           // Only the traced replica knows from its pass that it is wanted.
                           if (comm::all_of(control_, forward->is_idle())) return false;
                           status = run(forward, text.tokens);
                           return status.ok();
                         });
  return status;
}

std::shared_ptr<Forward> Prompts::open(const control::PromptPass& pass) const {
  trace::PassText text = pass.text;
  text.tokens = text.tokens.to(device_);
  trace::ForwardScope scope = pass.scope;
  scope.is_copy = is_copy_;
  trace::InterventionHooks* const hooks = filled_to_ > 0 ? nullptr : pass.hooks;
  return std::make_shared<Forward>(places_, pass.tracer, hooks, scope, text, true);
}

base::Status Prompts::run(const std::shared_ptr<Forward>& forward, const at::Tensor& tokens) {
  const at::Tensor whole =
      filled_to_ > 0 ? at::constant_pad_nd(tokens, {0, filled_to_ - tokens.size(1)}) : tokens;
  std::string failure = calls_.run_model(forward, whole.to(device_));
  if (comm::all_of(control_, failure.empty())) {
    forward->end();
    return {};
  }
  if (failure.empty()) failure = "another rank failed";
  off_ = "prompts are off, because the model failed on one: " + failure;
  news_ = off_;
  return base::Error{"failed", off_, "text", "attach again"};
}

}  // namespace tt::attach

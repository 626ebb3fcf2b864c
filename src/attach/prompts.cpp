#include "src/attach/prompts.h"

#include <ATen/ATen.h>

#include <utility>

#include "src/attach/error.h"
#include "tensor_tracer/comm/collectives.h"

namespace tt::attach {

using nlohmann::json;

Prompts::Prompts(const json& settings, PromptCalls calls, const comm::ProcessGroup& control,
                 std::shared_ptr<const Places> places, const trace::PlanContext& context,
                 at::Device device)
    : calls_(std::move(calls)), control_(control), places_(std::move(places)), device_(device) {
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
      .tokenize = calls_.tokenize, .seq_length = seq_length, .where = "prompts"};
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
  return calls_.tokenize(text);
}

base::Status Prompts::run(const control::PromptPass& pass) {
  return run(open(pass), pass.text.tokens);
}

void Prompts::run_sets(std::int64_t step, std::int64_t rows, trace::Tracer& tracer,
                       trace::InterventionHooks* hooks) {
  if (step % interval_ != 0) return;
  control::for_each_pass(
      sets_, step, rows, [&](const trace::ForwardScope& scope, const trace::PassText& text) {
        if (!off_.empty()) return false;
        const auto forward = open({scope, text, tracer, hooks});
        // Only the traced replica knows from its pass that it is wanted.
        return !comm::all_of(control_, forward->is_idle()) && run(forward, text.tokens).ok();
      });
}

std::shared_ptr<Forward> Prompts::open(const control::PromptPass& pass) const {
  const trace::PassText text{pass.text.tokens.to(device_), pass.text.targets};
  return std::make_shared<Forward>(places_, pass.tracer, pass.hooks, pass.scope, text, true);
}

base::Status Prompts::run(const std::shared_ptr<Forward>& forward, const at::Tensor& tokens) {
  std::string failure = calls_.run_model(forward, tokens.to(device_));
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

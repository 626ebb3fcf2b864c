#include "tensor_tracer/control/prompt_control.h"

#include <algorithm>
#include <utility>

#include "src/control/broadcast.h"
#include "tensor_tracer/trace/kept_records.h"
#include "tensor_tracer/trace/prompt_plan.h"

namespace tt::control {
namespace {

using nlohmann::json;

// A program names prompt sets in a list with commas, and "*" stands for all of them.
base::Status check_name(const std::string& name) {
  const bool has_others = std::ranges::any_of(name, [](const char character) {
    return static_cast<unsigned char>(character) < ' ' || character == ',' || character == '*' ||
           character == '"' || character == '\\';
  });
  if (!has_others && name.front() != ' ' && name.back() != ' ') return {};
  return base::invalid_argument("name", "\"" + name + "\" cannot be the name of a prompt set",
                                "use letters, digits, spaces inside, and - _ .");
}

// A set that was removed gets its number back.
std::vector<data::PromptSet> with(std::vector<data::PromptSet> sets, data::PromptSet added) {
  const auto known = std::ranges::find_if(sets, [&added](const data::PromptSet& set) {
    return set.is_removed && set.name == added.name && set.prompts == added.prompts;
  });
  if (known != sets.end())
    known->is_removed = false;
  else
    sets.push_back(std::move(added));
  return sets;
}

}  // namespace

points::PromptSets::List shapes_of(const std::vector<data::PromptSet>& sets) {
  points::PromptSets::List shapes;
  for (const data::PromptSet& set : sets) {
    shapes.push_back({.name = set.name,
                      .rows = static_cast<std::int64_t>(set.prompts.size()),
                      .tokens = set.longest(),
                      .is_removed = set.is_removed,
                      .shortest = set.shortest()});
  }
  return shapes;
}

PromptControl::PromptControl(const comm::ProcessGroup& control,
                             trace::ControlSource* control_source, trace::TraceSink* sink,
                             const trace::PlanContext& plan_context, Prompts prompts)
    : control_(control),
      control_source_(control_source),
      sink_(sink),
      plan_context_(plan_context),
      prompts_(std::move(prompts)) {}

void PromptControl::take_run(std::uint64_t id, const protocol::RunPrompt& request) {
  if (has_run()) {
    control_source_->refuse(id, {"busy", "another prompt is under way", "", "ask again"});
    return;
  }
  const auto prompt = read(request.text);
  if (!prompt) {
    control_source_->refuse(id, prompt.error());
    return;
  }
  const std::int64_t length = prompt.value().length();
  const std::size_t most = trace::KeptRecords::kMaxBytes;
  json text =
      request.plan ? *request.plan : trace::default_prompt_plan(plan_context_, length, most);
  const auto plan = trace::parse_prompt_plan(text, plan_context_, length, most);
  if (!plan) {
    control_source_->refuse(id, plan.error());
    return;
  }
  run_id_ = id;
  run_params_ = {
      {"text", request.text}, {"tokens", prompt.value().tokens}, {"plan", std::move(text)}};
  run_contents_ = trace::contents_of(plan.value());
}

base::Result<data::Prompt> PromptControl::read(const std::string& text) const {
  return data::PromptReader{
      .tokenize = prompts_.tokenize, .seq_length = plan_context_.seq_length, .where = "text"}
      .read(text, "the prompt");
}

base::Result<trace::Plan> PromptControl::keep(const protocol::KeepPrompt& request,
                                              const trace::Plan& plan) {
  base::Status status = check_name(request.name);
  if (!status) return status.error();
  auto prompt = read(request.text);
  if (!prompt) return prompt.error();
  const std::int64_t length = prompt.value().length();
  auto sets = with(*prompts_.sets, {request.name, {std::move(prompt).value()}});
  status = data::check_prompt_sets(sets, "name");
  if (!status) return status.error();
  const json text = request.plan ? *request.plan
                                 : trace::default_prompt_plan(plan_context_, length,
                                                              trace::KeptRecords::kMaxBytes);
  const auto entries = trace::entries_for(text, request.name);
  if (!entries) return entries.error();
  json whole = trace::to_json(plan, plan_context_);
  whole["entries"].insert(whole["entries"].end(), entries.value().begin(), entries.value().end());
  trace::PlanContext context = plan_context_;
  context.prompt_sets = points::PromptSets(shapes_of(sets));
  auto parsed = trace::parse_plan(whole, context, plan.number);
  if (parsed) put(std::move(sets));
  return parsed;
}

base::Result<trace::Plan> PromptControl::remove(const std::string& name, trace::Plan plan) {
  const auto number = plan_context_.prompt_sets.find(name);
  if (!number) {
    const json names = plan_context_.prompt_sets.names();
    return base::Error{"not_found", "there is no prompt set \"" + name + "\"", "name",
                       names.empty() ? "the run has none" : "there are: " + names.dump()};
  }
  std::vector<data::PromptSet> sets = *prompts_.sets;
  sets.at(*number - 1).is_removed = true;
  put(std::move(sets));
  std::erase_if(plan.entries,
                [number](const trace::PlanEntry& entry) { return entry.prompt_set == *number; });
  return plan;
}

void PromptControl::put(std::vector<data::PromptSet> sets) {
  *prompts_.sets = std::move(sets);
  plan_context_.prompt_sets.replace(shapes_of(*prompts_.sets));
  has_new_sets_ = control_.rank() == 0;
}

void PromptControl::notify(std::int64_t next_step) const {
  sink_->send_event(
      "prompts",
      {{"step", next_step}, {"prompt_sets", data::describe(*prompts_.sets, prompts_.interval)}});
}

std::uint32_t PromptControl::take_news() {
  news_.clear();
  if (!has_news()) return 0;
  json news = json::object();
  if (std::exchange(has_new_sets_, false)) news["sets"] = data::to_json(*prompts_.sets);
  if (has_run()) news["run"] = run_params_;
  json::to_msgpack(news, news_);
  return static_cast<std::uint32_t>(news_.size());
}

void PromptControl::share(std::uint32_t bytes) {
  if (bytes == 0) return;
  broadcast(control_, news_, bytes);
  trace::broadcast_contents(control_, run_contents_, 0);
  if (control_.rank() == 0) return;
  const json news = json::from_msgpack(news_);
  if (news.contains("sets") && is_on()) put(data::prompt_sets_of(news.at("sets")));
  run_params_ = news.value("run", json());
}

void PromptControl::run(std::int64_t next_step) {
  auto answer =
      prompts_.run(std::exchange(run_params_, {}), std::exchange(run_contents_, {}), next_step - 1);
  if (control_.rank() != 0) return;
  if (answer)
    control_source_->answer(run_id_, std::move(answer).value());
  else
    control_source_->refuse(run_id_, answer.error());
}

}  // namespace tt::control

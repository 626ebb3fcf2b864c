#include "src/intervene/active_program.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "src/intervene/program_cache.h"
#include "src/intervene/token_texts.h"

namespace tt::intervene {
namespace {

constexpr std::size_t kMaxShapes = 16;

bool contains(const graph::Ranges& ranges, std::int64_t number) {
  return ranges.empty() || std::ranges::any_of(
                               ranges,
                               [number](const auto& range) {
                                 return number >= range.first && number <= range.second;
                               });
}

bool is_step(const graph::Schedule& when, std::int64_t step) {
  if (!contains(when.steps, step)) return false;
  std::int64_t first = when.steps.empty() ? 1 : when.steps.front().first;
  for (const auto& [begin, end] : when.steps) first = std::min(first, begin);
  return (step - first) % when.every == 0;
}

// A mask of `size` indices, which begin at number `first`. Negative numbers in `ranges` count from
// `end`.
at::Tensor mask_of(const graph::Ranges& ranges, std::int64_t first, std::int64_t size,
                   std::int64_t end) {
  at::Tensor mask = at::zeros({size}, at::device(at::kCPU).dtype(at::kBool));
  bool* out = mask.mutable_data_ptr<bool>();
  for (std::int64_t i = 0; i < size; ++i)
    out[i] = contains(ranges, first + i) || (i < end && contains(ranges, i - end));
  return mask;
}

// True where the next position is.
at::Tensor is_before(const at::Tensor& mask_BT) {
  return at::constant_pad_nd(mask_BT.narrow(1, 1, mask_BT.size(1) - 1), {0, 1}, false);
}

// The length of a prompt without its padding of zeros.
std::int64_t length_of(const at::Tensor& prompt) {
  const auto* token = prompt.const_data_ptr<std::int64_t>();
  std::int64_t length = prompt.size(0);
  while (length > 1 && token[length - 1] == 0) --length;
  return length;
}

at::Tensor positions_of(const graph::Ranges& ranges, const at::Tensor& tokens, bool are_prompts) {
  const std::int64_t size = tokens.size(1);
  if (!are_prompts) return mask_of(ranges, 0, size, size).expand(tokens.sizes());
  std::vector<at::Tensor> rows;
  for (const at::Tensor& prompt : tokens.cpu().contiguous().unbind())
    rows.push_back(mask_of(ranges, 0, size, length_of(prompt)));
  return at::stack(rows);
}

at::Tensor response_of(const trace::ForwardScope& scope, const trace::ProgramTokens& tokens) {
  if (tokens.response.defined()) return tokens.response;
  const bool is_prompt =
      scope.phase == trace::Phase::kGeneration ? scope.batch == 0 : scope.prompt_set > 0;
  return at::full(tokens.ids.sizes(), !is_prompt, at::device(at::kCPU).dtype(at::kBool));
}

// The rule of the code of persona vectors: every token in training; otherwise the last token of
// each pass, from which the next token of the response is predicted. Undefined: all positions.
at::Tensor published_positions(const trace::ForwardScope& scope,
                               const trace::ProgramTokens& tokens) {
  if (scope.phase != trace::Phase::kGeneration)
    return scope.prompt_set > 0 ? positions_of({{-1, -1}}, tokens.ids, true) : at::Tensor();
  if (tokens.response.defined()) return tokens.response.logical_or(is_before(tokens.response));
  if (scope.batch > 0 || !tokens.writable.defined()) return {};
  return tokens.writable.logical_and(is_before(tokens.writable).logical_not());
}

// Undefined: all positions.
at::Tensor part_of_text(graph::Positions positions, const trace::ForwardScope& scope,
                        const trace::ProgramTokens& tokens) {
  switch (positions) {
    case graph::Positions::kAll:
      break;
    case graph::Positions::kPrompt:
      return response_of(scope, tokens).logical_not();
    case graph::Positions::kResponse:
      return response_of(scope, tokens);
    case graph::Positions::kPublished:
      return published_positions(scope, tokens);
  }
  return {};
}

}  // namespace

ForwardKind kind_of(const trace::ForwardScope& scope) {
  // In training, rows before a micro-batch may be another number in each step.
  const bool is_training = scope.phase == trace::Phase::kTrain;
  return {scope.phase, scope.prompt_set, is_training ? scope.micro_batch : scope.first_row,
          scope.stage};
}

std::string saved_name(const std::string& name, int layer) {
  return std::to_string(layer) + "@" + name;
}

const graph::Parameter* find_parameter(const graph::Program& program, const std::string& name) {
  const auto found = std::ranges::find(program.parameters, name, &graph::Parameter::name);
  return found == program.parameters.end() ? nullptr : &*found;
}

base::Status check_value(const graph::Parameter& parameter, const nlohmann::json& value) {
  if (!value.is_number())
    return base::invalid_argument("value", "\"" + parameter.name + "\" is a number");
  const double number = value.get<double>();
  if (std::isfinite(number) && parameter.admits(number)) return {};
  const auto shown = [](double bound) { return nlohmann::json(bound).dump(); };
  return base::invalid_argument(
      "value", "\"" + parameter.name + "\" lies between " +
                   (parameter.min ? shown(*parameter.min) : "any number") + " and " +
                   (parameter.max ? shown(*parameter.max) : "any number") + ", not at " +
                   value.dump());
}

ActiveProgram::ActiveProgram(std::shared_ptr<const CompiledProgram> of)
    : compiled(std::move(of)),
      specializations({{compiled->shape, compiled->specialization}}),
      contents(compiled->contents) {
  for (const graph::Parameter& parameter : program.parameters)
    targets[parameter.name] = parameter.value;
  changes.resize(num_places());
  counts.places.resize(num_places());
}

base::Status ActiveProgram::set_targets(const nlohmann::json& given) {
  if (!given.is_object())
    return base::invalid_argument("parameters", "must be an object of numbers");
  for (const auto& [parameter_name, value] : given.items()) {
    const graph::Parameter* parameter = find_parameter(program, parameter_name);
    if (parameter == nullptr) {
      return base::invalid_argument(
          "parameters", "the program has no parameter \"" + parameter_name.substr(0, 64) + "\"");
    }
    if (auto status = check_value(*parameter, value); !status) return status;
    targets[parameter_name] = value.get<double>();
  }
  return {};
}

bool ActiveProgram::is_due(const trace::ForwardScope& scope, const graph::Model& model) const {
  const bool is_alone = scope.phase == trace::Phase::kGeneration && scope.prompt_set == 0;
  if (is_preview || is_alone) return true;
  const graph::Schedule& when = program.when;
  if (!is_step(when, scope.step)) return false;
  if (scope.prompt_set > 0) {
    const std::string set = model.prompt_sets.now()->at(scope.prompt_set - 1).name;
    return std::ranges::any_of(when.prompt_sets, [&set](const std::string& named) {
      return named == "*" || named == set;
    });
  }
  return scope.phase == trace::Phase::kTrain ? when.in_train : when.in_eval;
}

bool ActiveProgram::acts_at(int stage) const {
  return std::ranges::any_of(
      stages,
      [stage](const std::vector<int>& of_layer) {
        return std::ranges::find(of_layer, stage) != of_layer.end();
      });
}

int ActiveProgram::first_stage() const {
  int first = std::numeric_limits<int>::max();
  for (const std::vector<int>& of_layer : stages)
    for (const int stage : of_layer) first = std::min(first, stage);
  return first;
}

std::shared_ptr<const StepValues> ActiveProgram::values_of_step(std::int64_t number) {
  if (step_values != nullptr && step_values->step == number) return step_values;
  auto values = std::make_shared<StepValues>();
  values->step = number;
  std::map<std::string, double> numbers;
  for (const graph::Parameter& parameter : program.parameters) {
    const double now =
        parameter.in_step(targets.at(parameter.name), std::max<std::int64_t>(number - since, 0));
    numbers[parameter.name] = now;
    values->parameters.push_back(at::full({}, now, at::device(at::kCPU).dtype(at::kDouble)));
  }
  for (std::size_t i = 0; i < program.effects.size(); ++i) {
    const graph::Effect& effect = program.effects[i];
    values->is_identity.push_back(effect.kind == graph::EffectKind::kWrite &&
                                  graph::is_identity(program, effect, numbers));
    values->is_done.push_back(values->is_identity.back() || !says_layer[i]);
  }
  step_values = std::move(values);
  return step_values;
}

void ActiveProgram::count_identity(const StepValues& values, int stage) {
  for (std::size_t i = 0; i < values.is_identity.size(); ++i) {
    const std::size_t times = says_layer[i] ? layers.size() : 1;
    for (std::size_t layer = 0; values.is_identity[i] && layer < times; ++layer)
      if (stages[layer][i] == stage) ++counts.identity;
  }
}

void ActiveProgram::forget_generation() {
  std::erase_if(
      kept,
      [](const auto& saves) {
        return std::get<trace::Phase>(saves.first) == trace::Phase::kGeneration;
      });
}

std::shared_ptr<const Specialization> ActiveProgram::specialization_for(const Shape& shape,
                                                                        const Context& context) {
  if (const auto found = specializations.find(shape); found != specializations.end())
    return found->second;
  if (specializations.size() >= kMaxShapes) specializations.clear();
  return specializations[shape] = specialize(program, layers, shape, context, contents);
}

at::Tensor ActiveProgram::selected(const trace::ForwardScope& scope,
                                   const trace::ProgramTokens& tokens,
                                   const TokenTexts* texts) const {
  const graph::Schedule& when = program.when;
  const at::Tensor& ids = tokens.ids;
  at::Tensor all;
  const auto narrow_to = [&all](const at::Tensor& mask) {
    all = all.defined() ? all.logical_and(mask) : mask;
  };
  const auto shape = ids.sizes();
  if (!when.rows.empty()) {
    const at::Tensor rows = mask_of(when.rows, scope.first_row, shape[0], shape[0]);
    narrow_to(rows.unsqueeze(1).expand(shape));
  }
  if (!when.tokens.empty()) narrow_to(positions_of(when.tokens, ids, scope.prompt_set > 0));
  if (!when.token_text.empty()) narrow_to(spelled(ids, when.token_text, *texts));
  if (const at::Tensor part = part_of_text(when.positions, scope, tokens); part.defined())
    narrow_to(part);
  return all.defined() ? all.to(ids.device()) : all;
}

nlohmann::json ActiveProgram::describe() const {
  nlohmann::json described = compiled->form;
  described.erase("graph");
  described.erase("positions");
  described["name"] = name;
  described["since"] = since;
  described["keep"] = keep;
  if (until) described["until"] = *until;
  for (nlohmann::json& parameter : described["parameters"])
    parameter["value"] = targets.at(parameter["name"]);
  return described;
}

base::Result<std::shared_ptr<ActiveProgram>> make_active_program(const nlohmann::json& program,
                                                                 const Context& context) {
  auto compiled = context.programs->compile(program, context);
  if (!compiled) return compiled.error();
  return std::make_shared<ActiveProgram>(std::move(compiled).value());
}

}  // namespace tt::intervene

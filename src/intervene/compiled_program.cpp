#include "src/intervene/compiled_program.h"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <utility>

#include "src/intervene/budget.h"
#include "src/intervene/describe.h"
#include "tensor_tracer/expr/diagnostic.h"
#include "tensor_tracer/graph/json.h"
#include "tensor_tracer/intervene/engine.h"

namespace tt::intervene {
namespace {

std::set<std::string> read_back(const graph::Program& program) {
  std::set<std::string> names;
  for (const graph::Value& value : program.values) {
    for (const graph::Leaf& leaf : value.leaves)
      if (leaf.kind == graph::LeafKind::kSaved) names.insert(leaf.name);
  }
  return names;
}

// Number of forwards per step whose saved values are kept separately.
std::int64_t forwards_of(const graph::Schedule& when, const Context& context) {
  const int phases = (when.in_train ? 1 : 0) + (when.in_eval ? 1 : 0);
  std::int64_t prompts = 0;
  const auto sets = context.model.prompt_sets.now();
  for (const points::PromptShape& set : *sets) {
    const std::int64_t batch = context.micro_batch_size;
    if (!set.is_removed) prompts += (set.rows + batch - 1) / batch;
  }
  return phases * context.micro_batches + (when.prompt_sets.empty() ? 0 : prompts);
}

// Checks the count of numbers that a program keeps in saved values, over its layers and the
// forwards of a step.
base::Status check_kept(const CompiledProgram& one, const Context& context) {
  const graph::Program& program = one.program;
  std::int64_t kept = 0;
  for (const graph::Effect& effect : program.effects) {
    if (effect.kind != graph::EffectKind::kSave || !one.read_back.contains(effect.name)) continue;
    for (const LayerSpecialization& specialized : one.specialization->layers) {
      kept += forwards_of(program.when, context) *
              c10::multiply_integers(specialized.values[effect.value].shape);
    }
    if (kept > kMaxKeptNumbers) {
      return expr::to_error(program.ast(),
                            {effect.span,
                             "with this line the program keeps " + std::to_string(kept) +
                                 " numbers over the forwards of a step, the limit is " +
                                 std::to_string(kMaxKeptNumbers),
                             "reduce what is saved, or save fewer layers"});
    }
  }
  return {};
}

base::Status check_keys(const graph::Place& place, const points::PlaceTable& places) {
  const std::vector<std::string>& dims = places.rows()[place.row].dims;
  if (place.gradient || std::ranges::find(dims, "keys") == dims.end()) return {};
  return base::invalid_argument(
      "program", "uses " + graph::to_string(place) + ", which a pass over one token does not have",
      "use attention.context");
}

// The passes of a generation are over the prompts, then over one token of each row.
base::Status fits_generation(const graph::Program& program, const points::PlaceTable& places) {
  if (!program.when.tokens.empty() || !program.when.token_text.empty()) {
    return base::invalid_argument("program",
                                  "selects tokens of a sequence, and generation runs over one "
                                  "token after another",
                                  "leave out tokens and token_text");
  }
  base::Status status;
  for (const graph::Effect& effect : program.effects)
    if (status && effect.kind == graph::EffectKind::kWrite)
      status = check_keys(effect.place, places);
  for (const graph::Value& value : program.values)
    for (const graph::Leaf& leaf : value.leaves)
      if (status && leaf.kind == graph::LeafKind::kPlace) status = check_keys(leaf.place, places);
  return status;
}

}  // namespace

std::string source_of(const nlohmann::json& program) {
  return program.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::shared_ptr<const Specialization> specialize(const graph::Program& program,
                                                 const std::vector<int>& layers, const Shape& shape,
                                                 const Context& context,
                                                 trace::FileContents& contents) {
  auto specialization = std::make_shared<Specialization>();
  for (const int layer : layers) {
    auto specialized = specialize_layer(program, context, shape, layer, contents);
    if (!specialized) {
      specialization->error = specialized.error();
      return specialization;
    }
    specialization->layers.push_back(std::move(specialized).value());
  }
  const base::Status status = check_budget(program, specialization->layers, context);
  if (!status) specialization->error = status.error();
  return specialization;
}

base::Result<std::shared_ptr<const CompiledProgram>> compile_program(const nlohmann::json& program,
                                                                     const Context& context) {
  auto read = graph::read_program(program, context.model);
  if (!read) return read.error();
  auto compiled = std::make_shared<CompiledProgram>();
  compiled->source = source_of(program);
  compiled->program = std::move(read).value();
  compiled->layers = layers_of(compiled->program);
  auto stages = find_stages(compiled->program, compiled->layers, context.places());
  if (!stages) return stages.error();
  compiled->stages = std::move(stages).value();
  compiled->shape = {context.micro_batch_size, context.seq_length};
  compiled->specialization =
      specialize(compiled->program, compiled->layers, compiled->shape, context, compiled->contents);
  if (compiled->specialization->error) return *compiled->specialization->error;
  compiled->read_back = read_back(compiled->program);
  compiled->generation = fits_generation(compiled->program, context.places());
  if (auto status = check_kept(*compiled, context); !status) return status.error();
  for (const graph::Effect& effect : compiled->program.effects)
    compiled->says_layer.push_back(graph::is_each(compiled->program, effect));
  compiled->form =
      describe_program(compiled->program, *compiled->specialization, compiled->says_layer);
  return std::shared_ptr<const CompiledProgram>(std::move(compiled));
}

}  // namespace tt::intervene

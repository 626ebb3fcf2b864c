#include "tensor_tracer/graph/program.h"

#include <algorithm>
#include <cstdlib>

#include "src/graph/graph_reader.h"
#include "src/graph/layers.h"
#include "src/graph/steps.h"
#include "tensor_tracer/graph/json.h"

namespace tt::graph {
namespace {

using expr::Statement;

const Statement* find_when(const Reading& reading, const Program& program) {
  const auto found = std::ranges::find_if(
      program.script->statements,
      [&](const Statement& statement) { return reading.called(statement.value) == "when"; });
  return found == program.script->statements.end() ? nullptr : &*found;
}

bool check_whole(Reading& reading, const Program& program) {
  const auto& statements = program.script->statements;
  if (program.effects.empty()) {
    return reading.fail(statements.back().span, "the program changes nothing and saves nothing",
                        "write a place, for example layers[12].output = ..., or "
                        "save(..., \"name\")");
  }
  const Statement* when = find_when(reading, program);
  if (when != nullptr && !program.uses_each_layer && !program.when.layers.empty()) {
    return reading.fail(when->span, "layers= says what \"layer\" stands for, and no line has it",
                        "write layers[layer], or take layers= away");
  }
  return true;
}

base::Result<Program> make_program(base::Result<expr::Script> script, const Model& model) {
  if (!script.ok()) return script.error();
  Program program;
  program.script = std::make_shared<const expr::Script>(std::move(script).value());
  Reading reading(program.ast(), model);
  const bool is_sound = read_statements(reading, program) && settle_layers(reading, program) &&
                        check_whole(reading, program) && check_saves(reading, program) &&
                        check_order(reading, program);
  if (!is_sound) return expr::to_error(program.ast(), *reading.problem());
  return program;
}

}  // namespace

base::Result<Program> parse_program(std::string_view text, const Model& model) {
  return make_program(expr::parse_script(text), model);
}

base::Result<Program> read_program(const nlohmann::json& text_or_graph, const Model& model) {
  if (!text_or_graph.is_string())
    return make_program(read_script(text_or_graph, *model.places), model);
  return parse_program(text_or_graph.get_ref<const std::string&>(), model);
}

bool is_each(const Program& program, const Effect& effect) {
  return is_each(program, effect, find_layered(program));
}

Place Place::in(int of_layer) const {
  Place place = *this;
  if (layer) place.layer = LayerRef{false, layer->at(of_layer)};
  return place;
}

std::string to_string(const Place& place) {
  std::string text = place.path;
  if (place.layer) {
    const int number = place.layer->number;
    std::string inside = place.layer->is_each ? "layer" : std::to_string(number);
    if (place.layer->is_each && number != 0)
      inside += (number > 0 ? " + " : " - ") + std::to_string(std::abs(number));
    text = "layers[" + inside + "]." + text;
  }
  return place.gradient ? text + ".grad" : text;
}

}  // namespace tt::graph

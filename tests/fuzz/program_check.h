#pragma once

#include <nlohmann/json.hpp>

#include "tensor_tracer/graph/json.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/graph/gpt_places.h"

namespace tt::fuzz {

inline graph::Model model() {
  return {graph::gpt_places(24), points::PromptSets({{"probes"}, {"chat"}})};
}

/// Parentheses count in a text, and not in a graph.
inline bool is_deep(const base::Error& error) {
  return error.message.find("nested deeper") != std::string::npos;
}

/// What must hold for every program that was taken.
inline void check_program(const graph::Program& program) {
  require(!program.effects.empty() && program.effects.size() <= graph::kMaxEffects, "kMaxEffects");
  require(program.parameters.size() <= graph::kMaxParameters, "kMaxParameters");
  for (std::size_t i = 0; i < program.values.size(); ++i)
    for (const graph::Leaf& leaf : program.values[i].leaves)
      require(leaf.kind != graph::LeafKind::kBinding || leaf.value < i, "names stand above users");
  for (const graph::Effect& effect : program.effects) {
    graph::is_identity(program, effect, {});
    graph::is_each(program, effect);
  }
  const nlohmann::json graph = to_json(program);
  const auto read = graph::read_program(graph, model());
  // What is written out may be longer than what was read, and so past a limit.
  const bool is_long = program.ast().source().size() > 8'000 || program.ast().size() > 3000;
  if (!read.ok() && (is_long || is_deep(read.error()))) return;
  require(read.ok(), "its JSON is a program");
  require(to_json(read.value()) == graph, "its JSON is the same program");
  const auto again = graph::parse_program(read.value().ast().source(), model());
  if (!again.ok() && is_deep(again.error())) return;
  require(again.ok(), "the text of its JSON is a program");
  require(to_json(again.value()) == graph, "the text of its JSON is the same program");
}

inline void check_error(const base::Error& error) {
  require(error.code == "invalid_expression" || error.code == "invalid_graph", "code");
  for (const unsigned char c : error.message + error.where + error.remedy)
    require((c >= ' ' && c != 0x7F) || c == '\n', "control characters are not shown");
  static_cast<void>(nlohmann::json(error.message).dump());  // throws unless it is UTF-8
}

}  // namespace tt::fuzz

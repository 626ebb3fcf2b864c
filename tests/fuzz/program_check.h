#pragma once

#include <nlohmann/json.hpp>

#include "tensor_tracer/graph/json.h"
#include "tests/fuzz/fuzz.h"

namespace tt::fuzz {

inline graph::Model model() { return {24, {"probes", "chat"}}; }

/// What must hold for every program that was taken.
inline void check_program(const graph::Program& program) {
  require(!program.effects.empty() && program.effects.size() <= graph::kMaxEffects, "kMaxEffects");
  require(program.parameters.size() <= graph::kMaxParameters, "kMaxParameters");
  for (std::size_t i = 0; i < program.values.size(); ++i) {
    for (const graph::Leaf& leaf : program.values[i].leaves) {
      require(leaf.kind != graph::LeafKind::kBinding || leaf.value < i, "names stand above users");
    }
  }
  for (const graph::Effect& effect : program.effects) {
    graph::is_identity(program, effect, {});
    graph::is_each(program, effect);
  }
  const nlohmann::json graph = to_json(program);
  const std::string text = to_text(program);
  // What is written out may be longer than what was read, and so past a limit.
  if (text.size() > 12'000 || program.ast().size() > 3000) return;
  const auto again = graph::parse_program(text, model());
  if (!again.ok() && again.error().message.find("nested deeper") != std::string::npos) return;
  require(again.ok(), "its text is a program");
  require(to_json(again.value()) == graph, "its text is the same program");
  const auto from_json = graph::to_text(graph);
  require(from_json.ok() && from_json.value() == text, "its JSON is the same program");
}

inline void check_error(const base::Error& error) {
  require(error.code == "invalid_expression" || error.code == "invalid_graph", "code");
  for (const unsigned char c : error.message + error.where + error.remedy) {
    require((c >= ' ' && c != 0x7F) || c == '\n', "control characters are not shown");
  }
  static_cast<void>(nlohmann::json(error.message).dump());  // throws unless it is UTF-8
}

}  // namespace tt::fuzz

#include <algorithm>

#include "src/graph/place_reader.h"
#include "src/graph/steps.h"
#include "src/graph/value_reader.h"
#include "src/graph/words.h"

namespace tt::graph {
namespace {

using expr::Kind;
using expr::kNoNode;
using expr::Node;
using expr::NodeId;
using expr::Statement;

const Signature kSave{
    "save(value, \"name\"), or save(value, \"name\", send=False)", {"value", "name", "send"}, 2, 2};
const Signature kSkip{"skip(layers[5])", {"layer"}, 1, 1};

// True if the subscript of a written place has only integers, slices, dots and at most one list.
bool is_write_index(Reading& reading, NodeId subscript) {
  const Node& whole = reading.node(subscript);
  const std::vector<NodeId> items =
      whole.kind == Kind::kTuple ? whole.children : std::vector<NodeId>{subscript};
  const auto is = [&](Kind kind) {
    return [&reading, kind](NodeId id) { return reading.node(id).kind == kind; };
  };
  return !items.empty() && std::ranges::count_if(items, is(Kind::kList)) <= 1 &&
         std::ranges::count_if(items, is(Kind::kEllipsis)) <= 1 &&
         std::ranges::all_of(items, [&](NodeId id) {
           return reading.node(id).kind == Kind::kEllipsis || is_plain_index(reading, id);
         });
}

class StatementReader {
 public:
  StatementReader(Reading& reading, Program& program) : reading_(reading), program_(program) {}

  bool read() {
    const auto& statements = program_.script->statements;
    for (const Statement& statement : statements) {
      if (!gives_name(statement)) continue;
      names_.lines.emplace(reading_.node(statement.target).text,
                           reading_.line_of(statement.target));
    }
    return std::ranges::all_of(statements,
                               [this](const Statement& statement) { return read(statement); });
  }

 private:
  bool gives_name(const Statement& statement) const {
    if (statement.target == kNoNode) return false;
    const Node& target = reading_.node(statement.target);
    if (target.kind != Kind::kName) return false;
    const auto row = places().find(target.text);
    return !row || (places().rows()[*row].in_layers() && places().rows()[*row].name != target.text);
  }

  bool read(const Statement& statement) {
    if (gives_name(statement)) return read_named(statement);
    if (statement.target != kNoNode) return read_write(statement);
    const std::string call = reading_.called(statement.value);
    if (call == "when") return read_when(statement);
    if (call == "save") return read_save(statement);
    if (call == "skip") return read_skip(statement);
    if (call == "param") {
      return reading_.fail(reading_.node(statement.value).span, "a parameter needs a name",
                           "write alpha = param(4.0)");
    }
    return reading_.fail(
        reading_.node(statement.value).span,
        "this line does nothing" + expr::suggestion(call, {"save", "skip", "when"}),
        "write name = ..., place = ..., save(..., \"name\") or skip(layers[5])");
  }

  bool read_named(const Statement& statement) {
    const Node& target = reading_.node(statement.target);
    const bool is_parameter = reading_.called(statement.value) == "param";
    if (!check_name(target)) return false;
    if (statement.condition != kNoNode) {
      return reading_.fail(statement.span, "a name cannot depend on a condition",
                           is_parameter ? "write it without the if"
                                        : "write " + target.text + " = where(condition, a, b)");
    }
    if (is_parameter) return read_parameter_line(statement, target);
    if (!read_value(reading_, names_, statement.value, target.text, program_.values)) return false;
    names_.values.emplace(target.text, program_.values.size() - 1);
    return true;
  }

  bool check_name(const Node& target) {
    const std::string name = in_quotes(target.text);
    if (is_reserved(target.text, places())) {
      return reading_.fail(target.span, name + " stands for itself and cannot be given away",
                           target.text == "layers" || target.text == "embedding"
                               ? "to write a place, name it: layers[12].output = ..."
                               : "take another name");
    }
    if (target.text.size() > kMaxNameBytes) {
      return reading_.fail(target.span,
                           "the name has " + std::to_string(target.text.size()) +
                               " bytes, the limit is " + std::to_string(kMaxNameBytes),
                           "shorten it");
    }
    if (names_.has(target.text)) {
      return reading_.fail(
          target.span,
          name + " has a value already, from line " + std::to_string(names_.lines.at(target.text)),
          "a value keeps its name: take another one");
    }
    return true;
  }

  bool read_parameter_line(const Statement& statement, const Node& target) {
    if (program_.parameters.size() == kMaxParameters) {
      return reading_.fail(
          statement.span,
          "the program has more than " + std::to_string(kMaxParameters) + " parameters",
          "write some of them as plain numbers");
    }
    Parameter parameter;
    parameter.name = target.text;
    parameter.span = statement.span;
    if (!read_parameter(reading_, statement.value, parameter)) return false;
    names_.parameters.emplace(target.text, program_.parameters.size());
    program_.parameters.push_back(std::move(parameter));
    return true;
  }

  bool read_when(const Statement& statement) {
    const expr::Span span = reading_.node(statement.value).span;
    if (statement.condition != kNoNode) {
      return reading_.fail(statement.span, "when(...) is about the whole program",
                           "write it without the if, and the if in front of single lines");
    }
    if (has_when_) return reading_.fail(span, "when(...) is there twice", "put all of it into one");
    has_when_ = true;
    return read_schedule(reading_, statement.value, program_.when);
  }

  // Adds the expression `root` to the program's values and returns its index.
  bool add_value(NodeId root, std::size_t& index) {
    if (!read_value(reading_, names_, root, "", program_.values)) return false;
    index = program_.values.size() - 1;
    return true;
  }

  bool add_condition(const Statement& statement, Effect& effect) {
    effect.span = statement.span;
    if (statement.condition == kNoNode) return true;
    effect.condition = 0;
    return add_value(statement.condition, *effect.condition);
  }

  bool read_write(const Statement& statement) {
    Effect effect;
    if (!read_target(statement.target, effect) || !add_condition(statement, effect) ||
        !add_value(statement.value, effect.value))
      return false;
    program_.effects.push_back(std::move(effect));
    return true;
  }

  bool read_target(NodeId target, Effect& effect) {
    const expr::Span span = reading_.node(target).span;
    const auto found = find_place_in(reading_, target);
    if (reading_.problem()) return false;
    if (!found) {
      return reading_.fail(span, "only a name or a place stands left of the =",
                           "write name = ..., or layers[12].output = ...");
    }
    effect.place = found->place;
    if (found->end != target && !read_index(target, found->end, effect)) return false;
    return check_writable(reading_.node(found->end).span, effect.place);
  }

  bool read_index(NodeId target, NodeId end, Effect& effect) {
    const Node& node = reading_.node(target);
    if (node.kind != Kind::kIndex || node.children[0] != end) {
      return reading_.fail(node.span, "only a place or a part of it can be written",
                           "write " + to_string(effect.place) + " = ...");
    }
    effect.index = node.children[1];
    return is_write_index(reading_, effect.index) ||
           reading_.fail(reading_.node(effect.index).span, "this part cannot be written",
                         "write integers, slices, ... and at most one list of integers; for a mask "
                         "write if mask: in front");
  }

  bool check_writable(expr::Span span, const Place& place) {
    const points::Place& row = places().rows()[place.row];
    if (row.writable) return true;
    if (row.holds_integers()) {
      return reading_.fail(span, "tokens are read only: they are whole numbers that were looked up",
                           "write embedding.output");
    }
    return reading_.fail(span,
                         to_string(place) + " is read only: it is computed once more for watching",
                         "write attention.query, .key or .context of the layer");
  }

  bool read_save(const Statement& statement) {
    Effect effect;
    effect.kind = EffectKind::kSave;
    const auto given = read_arguments(reading_, statement.value, kSave);
    if (given.empty() ||
        !read_string(reading_, given[1], "a save's name", kMaxNameBytes, effect.name))
      return false;
    const auto same = [&](const Effect& other) {
      return other.kind == EffectKind::kSave && other.name == effect.name;
    };
    if (std::ranges::any_of(program_.effects, same)) {
      return reading_.fail(reading_.node(given[1]).span,
                           "there is a save of the name " + in_quotes(effect.name) + " already",
                           "take another name");
    }
    if (given[2] != kNoNode) {
      const Node& send = reading_.node(given[2]);
      if (send.kind != Kind::kTrue && send.kind != Kind::kFalse)
        return reading_.fail(send.span, "send is True or False", "write send=False");
      effect.sends = send.kind == Kind::kTrue;
    }
    if (!add_condition(statement, effect) || !add_value(given[0], effect.value)) return false;
    program_.effects.push_back(std::move(effect));
    return true;
  }

  bool read_skip(const Statement& statement) {
    Effect effect;
    effect.kind = EffectKind::kSkip;
    const auto given = read_arguments(reading_, statement.value, kSkip);
    if (given.empty()) return false;
    const Node& argument = reading_.node(given[0]);
    if (argument.kind != Kind::kIndex || !reading_.is_name(argument.children[0], "layers"))
      return reading_.fail(argument.span, "only a layer can be skipped", "write skip(layers[5])");
    LayerRef layer;
    if (!read_layer_ref(reading_, argument.children[1], "layers", layer)) return false;
    effect.place.layer = layer;
    if (!add_condition(statement, effect)) return false;
    program_.effects.push_back(std::move(effect));
    return true;
  }

  const points::PlaceTable& places() const { return *reading_.model().places; }

  Reading& reading_;
  Program& program_;
  Names names_;
  bool has_when_ = false;
};

}  // namespace

bool read_statements(Reading& reading, Program& program) {
  return StatementReader(reading, program).read();
}

}  // namespace tt::graph

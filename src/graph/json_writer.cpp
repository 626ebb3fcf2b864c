#include <map>

#include "src/graph/reading.h"
#include "tensor_tracer/graph/json.h"

namespace tt::graph {
namespace {

using expr::Kind;
using expr::kNoNode;
using expr::Node;
using expr::NodeId;
using nlohmann::json;

json layer_json(const LayerRef& layer) {
  if (!layer.is_each) return layer.number;
  if (layer.number == 0) return "layer";
  return (layer.number > 0 ? "layer+" : "layer") + std::to_string(layer.number);
}

// Numbers the nodes in the order of the lines, each after the nodes that it uses.
class GraphWriter {
 public:
  explicit GraphWriter(const Program& program)
      : program_(program), reading_(program.ast(), model_) {}

  json write() {
    json graph = {{"version", kGraphVersion}};
    parameter_ids_.resize(program_.parameters.size());
    value_ids_.resize(program_.values.size());
    for (const expr::Statement& statement : program_.script->statements) write_line(statement);
    if (!when_.empty()) graph["when"] = std::move(when_);
    graph["nodes"] = std::move(nodes_);
    return graph;
  }

 private:
  const Node& node(NodeId id) const { return program_.ast().node(id); }

  std::string add(json fields) {
    std::string id = std::to_string(nodes_.size() + 1);
    fields["id"] = id;
    nodes_.push_back(std::move(fields));
    return id;
  }

  // --- Lines ---

  // Parameters, named values and effects are in the order of the lines.
  void write_line(const expr::Statement& statement) {
    const std::uint32_t begin = statement.span.begin;
    if (statement.target == kNoNode && reading_.called(statement.value) == "when") {
      write_when(node(statement.value));
    } else if (parameter_ < program_.parameters.size() &&
               program_.parameters[parameter_].span.begin == begin) {
      write_parameter(parameter_++);
    } else if (effect_ < program_.effects.size() && program_.effects[effect_].span.begin == begin) {
      write_effect(program_.effects[effect_++]);
    } else {
      while (program_.values[value_].name.empty()) ++value_;
      write_binding(value_++);
    }
  }

  // Copies the members as they are written.
  void write_when(const Node& call) {
    for (auto child = call.children.begin() + 1; child != call.children.end(); ++child) {
      const Node& given = node(node(*child).children[0]);
      json& member = when_[node(*child).text];
      member = given.kind == Kind::kString ? json(given.text) : json(given.integer);
    }
  }

  void write_parameter(std::size_t index) {
    const Parameter& parameter = program_.parameters[index];
    json fields = {{"type", "parameter"}, {"name", parameter.name}, {"value", parameter.value}};
    if (parameter.min) fields["min"] = *parameter.min;
    if (parameter.max) fields["max"] = *parameter.max;
    if (parameter.ramp_steps > 0) {
      fields["ramp_from"] = parameter.ramp_from;
      fields["ramp_steps"] = parameter.ramp_steps;
    }
    parameter_ids_[index] = add(std::move(fields));
  }

  void write_binding(std::size_t index) {
    const Value& value = program_.values[index];
    const std::size_t before = nodes_.size();
    json written = write_value(index);
    if (nodes_.size() > before && written.is_object() && written.contains("node")) {
      nodes_.back()["name"] = value.name;
      value_ids_[index] = written["node"].get<std::string>();
    } else {
      value_ids_[index] =
          add({{"type", "constant"}, {"value", std::move(written)}, {"name", value.name}});
    }
  }

  void write_effect(const Effect& effect) {
    json fields = json::object();
    if (effect.condition) {
      json value = write_value(*effect.condition);
      fields["condition"] = add({{"type", "condition"}, {"value", std::move(value)}});
    }
    if (effect.kind == EffectKind::kSkip) {
      fields["type"] = "skip";
      fields["layer"] = layer_json(*effect.place.layer);
    } else {
      fields["value"] = write_value(effect.value);
    }
    if (effect.kind == EffectKind::kSave) {
      fields["type"] = "save";
      fields["name"] = effect.name;
      if (!effect.sends) fields["send"] = false;
    }
    if (effect.kind == EffectKind::kWrite) {
      fields["type"] = "setter";
      put_place(effect.place, fields);
      if (effect.index != kNoNode) fields["index"] = items(effect.index);
    }
    add(std::move(fields));
  }

  // --- Expressions ---

  json write_value(std::size_t index) {
    leaves_.clear();
    collect_leaves(program_.values[index]);
    return argument(program_.values[index].root);
  }

  // A call of a part of the model is written as an operator, so the leaves of its argument count.
  void collect_leaves(const Value& value) {
    for (const Leaf& leaf : value.leaves) {
      const bool is_binding = leaf.kind == LeafKind::kBinding;
      const Value* used = is_binding ? &program_.values[leaf.value] : nullptr;
      if (used != nullptr && !used->module.empty() && used->name.empty())
        collect_leaves(program_.values[used->leaves[0].value]);
      else
        leaves_.emplace(leaf.node, &leaf);
    }
  }

  static json use(std::string id) { return {{"node", std::move(id)}}; }

  void put_place(const Place& place, json& fields) {
    fields["point"] = place.point;
    if (place.layer) fields["layer"] = layer_json(*place.layer);
    if (place.gradient) fields["gradient"] = true;
    if (place.heads != kNoNode) fields["heads"] = argument(place.heads);
  }

  json leaf(const Leaf& leaf) {
    json fields = json::object();
    switch (leaf.kind) {
      case LeafKind::kParameter:
        return use(parameter_ids_[leaf.value]);
      case LeafKind::kBinding:
        return use(value_ids_[leaf.value]);
      case LeafKind::kLayer:
        return {{"name", "layer"}};
      case LeafKind::kPlace:
        fields["type"] = "getter";
        put_place(leaf.place, fields);
        break;
      case LeafKind::kVector:
        fields = {{"type", "constant"}, {"vector", leaf.name}, {"row", layer_json(leaf.row)}};
        break;
      case LeafKind::kFile:
        fields = {{"type", "constant"}, {"file", leaf.name}, {"tensor", leaf.key}};
        break;
      case LeafKind::kNoise:
        fields["type"] = "noise";
        put_place(leaf.place, fields);
        if (leaf.key != "normal") fields["distribution"] = leaf.key;
        if (leaf.seed != 0) fields["seed"] = leaf.seed;
        break;
      case LeafKind::kSaved:
        fields = {{"type", "saved"}, {"save", leaf.name}};
        break;
    }
    return use(add(std::move(fields)));
  }

  json argument(NodeId id) {
    if (id == kNoNode) return nullptr;
    if (const auto found = leaves_.find(id); found != leaves_.end()) return leaf(*found->second);
    const Node& whole = node(id);
    switch (whole.kind) {
      case Kind::kInt:
        return whole.integer;
      case Kind::kFloat:
        return whole.real;
      case Kind::kString:
        return {{"string", whole.text}};
      case Kind::kTrue:
        return true;
      case Kind::kFalse:
        return false;
      case Kind::kNone:
        return nullptr;
      case Kind::kEllipsis:
        return {{"name", "..."}};
      case Kind::kName:
        return {{"name", whole.text}};
      case Kind::kSlice:
        return {{"slice", arguments(whole.children)}};
      case Kind::kTuple:
        return {{"tuple", arguments(whole.children)}};
      case Kind::kList:
        return {{"list", arguments(whole.children)}};
      default:
        return operation(id);
    }
  }

  json arguments(const std::vector<NodeId>& ids) {
    json list = json::array();
    for (const NodeId id : ids) list.push_back(argument(id));
    return list;
  }

  // The items between brackets, one for each dimension.
  json items(NodeId subscript) {
    const Node& whole = node(subscript);
    return whole.kind == Kind::kTuple ? arguments(whole.children) : arguments({subscript});
  }

  json operation(NodeId id) {
    const Node& whole = node(id);
    json fields = {{"type", "operator"}};
    if (whole.kind == Kind::kCall) return call(whole);
    if (whole.kind == Kind::kAttribute) {
      if (const std::string path = module_path(id); !path.empty()) return {{"name", path}};
      fields["operator"] = whole.text;
      fields["form"] = "attribute";
      fields["arguments"] = arguments(whole.children);
    } else if (whole.kind == Kind::kIndex) {
      fields["operator"] = "index";
      fields["form"] = "index";
      fields["arguments"] = arguments({whole.children[0]});
      for (json& item : items(whole.children[1])) fields["arguments"].push_back(std::move(item));
    } else {
      if (const auto integer = reading_.integer(id)) return *integer;
      if (const auto number = reading_.number(id)) return *number;
      fields["operator"] = expr::to_string(whole.op);
      fields["arguments"] = arguments(whole.children);
    }
    return use(add(std::move(fields)));
  }

  // For example "torch.linalg.norm"; empty if the chain has another base.
  std::string module_path(NodeId id) const {
    std::string path;
    for (; node(id).kind == Kind::kAttribute; id = node(id).children[0])
      path = "." + node(id).text + path;
    return reading_.is_name(id, "torch") ? "torch" + path : "";
  }

  json call(const Node& whole) {
    json fields = {{"type", "operator"}, {"arguments", json::array()}};
    const Node& callee = node(whole.children[0]);
    const std::string path = module_path(whole.children[0]);
    if (callee.kind == Kind::kName) {
      fields["form"] = "function";
      fields["operator"] = callee.text;
    } else if (!path.empty()) {
      fields["form"] = "function";
      fields["operator"] = path.substr(std::string_view("torch.").size());
    } else {
      fields["form"] = "method";
      fields["operator"] = callee.text;
      fields["arguments"].push_back(argument(callee.children[0]));
    }
    std::map<std::string, NodeId> keywords;
    for (auto child = whole.children.begin() + 1; child != whole.children.end(); ++child)
      if (node(*child).kind == Kind::kKeyword)
        keywords.emplace(node(*child).text, node(*child).children[0]);
      else
        fields["arguments"].push_back(argument(*child));
    for (const auto& [name, value] : keywords) fields["keywords"][name] = argument(value);
    return use(add(std::move(fields)));
  }

  const Program& program_;
  Model model_;
  Reading reading_;
  json nodes_ = json::array();
  json when_ = json::object();
  std::size_t parameter_ = 0;  // index of the next one
  std::size_t value_ = 0;
  std::size_t effect_ = 0;
  std::vector<std::string> parameter_ids_;
  std::vector<std::string> value_ids_;
  std::map<NodeId, const Leaf*> leaves_;  // of the value that is being written
};

}  // namespace

json to_json(const Program& program) { return GraphWriter(program).write(); }

}  // namespace tt::graph

#include "src/graph/pieces.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "src/graph/words.h"
#include "tensor_tracer/expr/diagnostic.h"
#include "tensor_tracer/graph/places.h"
#include "tensor_tracer/graph/program.h"

namespace tt::graph {
namespace {

using nlohmann::json;

struct Sign {
  std::string_view name;
  int level;
};

constexpr std::array kSigns = {Sign{"==", 1},
                               Sign{"!=", 1},
                               Sign{"<", 1},
                               Sign{"<=", 1},
                               Sign{">", 1},
                               Sign{">=", 1},
                               Sign{"|", 2},
                               Sign{"^", 3},
                               Sign{"&", 4},
                               Sign{"+", 5},
                               Sign{"-", 5},
                               Sign{"*", 6},
                               Sign{"/", 6},
                               Sign{"//", 6},
                               Sign{"%", 6},
                               Sign{"@", 6},
                               Sign{"neg", kUnaryLevel},
                               Sign{"pos", kUnaryLevel},
                               Sign{"~", kUnaryLevel},
                               Sign{"**", kPowerLevel}};

const Sign* find_sign(const std::string& name) {
  const auto found = std::ranges::find(kSigns, std::string_view(name), &Sign::name);
  return found == kSigns.end() ? nullptr : &*found;
}

std::string quoted_text(const std::string& value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') text += '\\';
    if (c == '\n') {
      text += "\\n";
    } else if (c == '\t') {
      text += "\\t";
    } else {
      text += c;
    }
  }
  return text + '"';
}

std::string real_text(double value) {
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  std::string text(buffer.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

bool is_dotted(const std::string& path) {
  std::string_view rest = path;
  while (true) {
    const auto dot = rest.find('.');
    if (!is_identifier(std::string(rest.substr(0, dot)))) return false;
    if (dot == std::string_view::npos) return true;
    rest.remove_prefix(dot + 1);
  }
}

}  // namespace

std::string PieceWriter::fail(std::string message, std::string remedy) {
  if (!error_) error_ = graph_error(node_->id, std::move(message), std::move(remedy));
  return "";
}

std::string PieceWriter::text(const json& fields, const char* member) {
  const auto found = fields.find(member);
  if (found == fields.end() || !found->is_string()) {
    return fail(std::string("its ") + member + " is not a string");
  }
  return quoted_text(found->get<std::string>());
}

std::string PieceWriter::number(const json& value) {
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
    return fail("a number does not fit into 64 bits");
  }
  if (value.is_number_integer()) return std::to_string(value.get<std::int64_t>());
  if (!value.is_number_float() || !std::isfinite(value.get<double>())) {
    return fail("a number is expected", "infinity is {\"name\": \"inf\"}");
  }
  return real_text(value.get<double>());
}

std::string PieceWriter::argument(const json& value, int level) {
  Piece piece = to_piece(value);
  return piece.level < level ? "(" + piece.text + ")" : std::move(piece.text);
}

Piece PieceWriter::to_piece(const json& value) {
  if (error_) return {};
  if (value.is_null()) return {"None", kAtomLevel};
  if (value.is_boolean()) return {value.get<bool>() ? "True" : "False", kAtomLevel};
  if (value.is_number()) {
    std::string text = number(value);
    const int level = text.starts_with("-") ? kUnaryLevel : kNumberLevel;
    return {std::move(text), level};
  }
  if (!value.is_object() || value.size() != 1) {
    return {fail("an argument is a number, true, false, null, or one of node, string, name, list, "
                 "tuple and slice"),
            0};
  }
  const std::string kind = value.begin().key();
  const json& inner = value.front();
  if (kind == "node") return pieces_[graph_.by_id.at(inner.get<std::string>())];
  if (kind == "string") return {text(value, "string"), kAtomLevel};
  if (kind == "name") return name(inner);
  if (kind == "list" && inner.is_array()) return {"[" + items(inner, 0) + "]", kAtomLevel};
  if (kind == "tuple" && inner.is_array()) {
    return {"(" + items(inner, 0) + (inner.size() == 1 ? ",)" : ")"), kAtomLevel};
  }
  return {fail("there is no argument of the kind \"" + shown(kind) + "\" here"), 0};
}

Piece PieceWriter::name(const json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  const bool is_module = text.starts_with("torch.") && is_dotted(text);
  const bool is_word =
      is_identifier(text) && (text == "layer" || text == "torch" || text == "inf" ||
                              text == "nan" || text == "pi" || text == "e" || !is_reserved(text));
  const bool is_taken = std::ranges::any_of(
      graph_.nodes, [&](const GraphNode& node) { return !text.empty() && node.name == text; });
  if (text != "..." && !is_module && (!is_word || is_taken)) {
    return {fail("\"" + shown(text) + "\" is no name that stands alone",
                 "a node's value is {\"node\": \"1\"}"),
            0};
  }
  return {text, is_module ? kPrimaryLevel : kAtomLevel};
}

std::string PieceWriter::slice(const json& parts) {
  if (!parts.is_array() || parts.size() != 3) return fail("a slice has three parts: null for none");
  std::string text;
  for (std::size_t i = 0; i < 3; ++i) {
    if (i == 1 || (i == 2 && !parts[2].is_null())) text += ":";
    if (!parts[i].is_null()) text += argument(parts[i]);
  }
  return text;
}

// Slices stand between brackets only.
std::string PieceWriter::items(const json& list, std::size_t first) {
  std::string text;
  for (std::size_t i = first; i < list.size() && !error_; ++i) {
    if (i > first) text += ", ";
    text += argument(list[i]);
  }
  return text;
}

std::string PieceWriter::index(const GraphNode& node) {
  const json& fields = *node.fields;
  if (!fields.contains("index")) return "";
  if (fields["index"].empty()) return fail("its index is empty", "leave it out to write all");
  std::string text;
  for (const json& item : fields["index"]) {
    const bool is_slice = item.is_object() && item.contains("slice") && item.size() == 1;
    text += (text.empty() ? "" : ", ") + (is_slice ? slice(item["slice"]) : argument(item));
  }
  return "[" + text + "]";
}

std::string PieceWriter::layer(const json& layer) {
  if (layer.is_number_integer()) return number(layer);
  std::string text = layer.is_string() ? layer.get<std::string>() : "";
  const bool is_each = text.starts_with("layer") && text.size() < 12;
  const std::string offset = is_each ? text.substr(5) : "";
  const bool is_offset =
      offset.size() > 1 && (offset[0] == '+' || offset[0] == '-') &&
      std::ranges::all_of(offset.substr(1), [](char c) { return c >= '0' && c <= '9'; });
  if (!is_each || (!offset.empty() && !is_offset)) {
    return fail("a layer is a number, \"layer\" or \"layer+1\"");
  }
  return offset.empty() ? text : "layer " + offset.substr(0, 1) + " " + offset.substr(1);
}

std::string PieceWriter::place(const GraphNode& node) {
  const json& fields = *node.fields;
  const bool has_layer = fields.contains("layer");
  const std::string layers = has_layer ? "layers[" + layer(fields["layer"]) + "]" : "";
  if (node.type == NodeType::kSkip) return layers;
  const std::string point = fields["point"].is_string() ? fields["point"].get<std::string>() : "";
  const PlaceKind* kind = find_place(point);
  if (kind == nullptr || kind->point != point) {
    std::vector<std::string> known;
    for (const PlaceKind& one : place_kinds()) known.push_back(one.point);
    return fail("there is no place \"" + shown(point) + "\"" +
                expr::suggestion(point.substr(0, kMaxNameBytes), known));
  }
  if (kind->in_layer != has_layer) {
    return fail(point + (has_layer ? " is outside the layers" : " needs its layer"),
                has_layer ? "leave layer out" : "write \"layer\": 12");
  }
  std::string text = has_layer ? layers + "." + kind->path : kind->path;
  if (const auto gradient = fields.find("gradient"); gradient != fields.end()) {
    if (!gradient->is_boolean()) return fail("its gradient is not true or false");
    if (gradient->get<bool>()) text += ".grad";
  }
  if (const auto heads = fields.find("heads"); heads != fields.end()) {
    const bool is_slice = heads->is_object() && heads->contains("slice");
    text += ".heads[" + (is_slice ? slice((*heads)["slice"]) : argument(*heads)) + "]";
  }
  return text;
}

Piece PieceWriter::constant(const json& fields) {
  const auto has = [&](const char* member) { return fields.contains(member); };
  if (has("vector") && has("row") && fields.size() == 4U + (has("name") ? 1 : 0)) {
    return {"vector(" + text(fields, "vector") + ")[" + layer(fields["row"]) + "]", kPrimaryLevel};
  }
  if (has("file") && has("tensor") && fields.size() == 4U + (has("name") ? 1 : 0)) {
    return {"file(" + text(fields, "file") + ")[" + text(fields, "tensor") + "]", kPrimaryLevel};
  }
  if (has("value") && fields.size() == 3U + (has("name") ? 1 : 0)) return to_piece(fields["value"]);
  return {fail("a constant has vector and row, or file and tensor, or value"), 0};
}

Piece PieceWriter::noise(const GraphNode& node) {
  const json& fields = *node.fields;
  std::string call = "noise(" + place(node);
  if (fields.contains("distribution")) call += ", " + text(fields, "distribution");
  if (fields.contains("seed")) call += ", seed=" + number(fields["seed"]);
  return {call + ")", kPrimaryLevel};
}

Piece PieceWriter::value(const GraphNode& node) {
  set_node(node);
  const json& fields = *node.fields;
  switch (node.type) {
    case NodeType::kGetter:
      return {place(node), kPrimaryLevel};
    case NodeType::kOperator:
      return operation(fields);
    case NodeType::kConstant:
      return constant(fields);
    case NodeType::kNoise:
      return noise(node);
    case NodeType::kSaved:
      return {"saved(" + text(fields, "save") + ")", kPrimaryLevel};
    default:
      return to_piece(fields["value"]);
  }
}

Piece PieceWriter::operation(const json& fields) {
  if (!fields["operator"].is_string()) return {fail("its operator is not a string"), 0};
  const std::string op = fields["operator"].get<std::string>();
  const json& arguments = fields["arguments"];
  const std::string usual = find_sign(op) != nullptr ? "sign" : "function";
  const std::string form = !fields.contains("form")     ? usual
                           : fields["form"].is_string() ? fields["form"].get<std::string>()
                                                        : "";
  if (fields.contains("keywords") && form != "method" && form != "function") {
    return {fail("only methods and functions have keywords"), 0};
  }
  if (form == "sign") return sign(fields, op);
  if (form == "function") return call(fields, op, false);
  if (arguments.empty()) return {fail("the operator has no argument"), 0};
  if (form == "method") return call(fields, op, true);
  const std::string base = argument(arguments[0], kPrimaryLevel);
  if (form == "attribute" && is_identifier(op) && arguments.size() == 1) {
    return {base + "." + op, kPrimaryLevel};
  }
  if (form != "index") {
    return {fail("there is no form \"" + shown(form) + "\" of \"" + shown(op) + "\"",
                 "write sign, method, function, attribute or index"),
            0};
  }
  std::string inside;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const json& item = arguments[i];
    const bool is_slice = item.is_object() && item.size() == 1 && item.contains("slice");
    inside += (i > 1 ? ", " : "") + (is_slice ? slice(item["slice"]) : argument(item));
  }
  if (arguments.size() == 1) inside = "()";
  if (arguments.size() == 2 && arguments[1].is_object() && arguments[1].contains("tuple")) {
    inside += ",";
  }
  return {base + "[" + inside + "]", kPrimaryLevel};
}

Piece PieceWriter::sign(const json& fields, const std::string& op) {
  const Sign* known = find_sign(op);
  const json& arguments = fields["arguments"];
  const std::size_t count = known != nullptr && known->level == kUnaryLevel ? 1 : 2;
  if (known == nullptr || arguments.size() != count) {
    return {fail("\"" + shown(op) + "\" is no sign with " + std::to_string(arguments.size()) +
                 " arguments"),
            0};
  }
  const int level = known->level;
  if (count == 1) {
    const std::string written = op == "neg" ? "-" : op == "pos" ? "+" : op;
    return {written + argument(arguments[0], kUnaryLevel), level};
  }
  const bool is_power = level == kPowerLevel;
  const int left = is_power ? kNumberLevel : level == kComparisonLevel ? level + 1 : level;
  const int right = is_power ? kUnaryLevel : level + 1;
  return {argument(arguments[0], left) + " " + op + " " + argument(arguments[1], right), level};
}

// Not the words that stand for leaves and lines.
bool PieceWriter::is_call_name(const std::string& op) const {
  return is_dotted(op) && !is_reserved(op);
}

Piece PieceWriter::call(const json& fields, const std::string& op, bool is_method) {
  if (is_method ? !is_identifier(op) : !is_call_name(op)) {
    return {fail("\"" + shown(op) + "\" is not the name of an operator"), 0};
  }
  const json& arguments = fields["arguments"];
  std::string text = is_method ? argument(arguments[0], kPrimaryLevel) : "";
  const bool is_dotted_name = op.find('.') != std::string::npos;
  text += is_method ? "." + op : is_dotted_name ? "torch." + op : op;
  std::string inside = items(arguments, is_method ? 1 : 0);
  const json keywords = fields.value("keywords", json::object());
  for (const auto& [name, value] : keywords.items()) {
    if (!is_identifier(name)) fail("\"" + shown(name) + "\" is not the name of an argument");
    if (error_) return {};
    inside += (inside.empty() ? "" : ", ") + name + "=" + argument(value);
  }
  return {text + "(" + inside + ")", kPrimaryLevel};
}

}  // namespace tt::graph

#include "tensor_tracer/graph/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/graph/samples.h"

namespace tt::graph {
namespace {

using nlohmann::json;
using testing::HasSubstr;

Program parsed(std::string_view text) {
  auto program = parse_program(text, test_model());
  EXPECT_TRUE(program.ok()) << text << "\n" << (program.ok() ? "" : program.error().message);
  return program.ok() ? std::move(program).value() : Program{};
}

void add_spans(const expr::Ast& ast, expr::NodeId id, std::vector<std::string>& spans) {
  if (id == expr::kNoNode) return;
  const expr::Node& node = ast.node(id);
  const auto shown = [](expr::Span span) {
    return " " + std::to_string(span.begin) + "-" + std::to_string(span.end);
  };
  spans.push_back(std::to_string(static_cast<int>(node.kind)) + " " + node.text + shown(node.span) +
                  shown(node.name_span));
  for (const expr::NodeId child : node.children) add_spans(ast, child, spans);
}

// All nodes of all lines, with the places that they have in the text.
std::vector<std::string> spans_of(const Program& program) {
  std::vector<std::string> spans;
  for (const expr::Statement& statement : program.script->statements) {
    spans.push_back(std::to_string(statement.span.begin) + "-" +
                    std::to_string(statement.span.end));
    for (const expr::NodeId id : {statement.condition, statement.target, statement.value})
      add_spans(program.ast(), id, spans);
  }
  return spans;
}

// A graph as text; else its error.
std::string text_of(const json& graph) {
  const auto program = read_program(graph, test_model());
  return program.ok() ? program.value().ast().source() : base::to_string(program.error());
}

std::string text_of_nodes(const char* nodes) {
  return text_of({{"version", 1}, {"nodes", json::parse(nodes)}});
}

TEST(GraphJson, EveryProgramComesBackFromItsGraphAndFromItsText) {
  for (const std::string_view sample : kSamples) {
    const Program program = parsed(sample);
    if (program.script == nullptr) continue;
    const json graph = to_json(program);
    const auto read = read_program(json::parse(graph.dump()), test_model());
    ASSERT_TRUE(read.ok()) << sample << "\n" << base::to_string(read.error());
    EXPECT_EQ(to_json(read.value()), graph) << sample;
    const std::string text = read.value().ast().source();
    const Program again = parsed(text);
    ASSERT_NE(again.script, nullptr) << text;
    EXPECT_EQ(to_json(again), graph) << sample << "\n--\n" << text;
    EXPECT_EQ(text_of(to_json(again)), text);
    EXPECT_EQ(spans_of(read.value()), spans_of(again)) << text;
  }
}

TEST(GraphJson, NodesStandBehindTheNodesTheyUse) {
  for (const std::string_view sample : kSamples) {
    const json nodes = to_json(parsed(sample))["nodes"];
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      EXPECT_EQ(nodes[i]["id"], std::to_string(i + 1));
      for (std::size_t later = i; later < nodes.size(); ++later) {
        const std::string use = R"({"node":")" + std::to_string(later + 1) + "\"}";
        EXPECT_EQ(nodes[i].dump().find(use), std::string::npos) << sample;
      }
    }
  }
}

TEST(GraphJson, TheExampleOfTheManual) {
  const json expected = json::parse(R"({"version": 1, "when": {"steps": "100-200"}, "nodes": [
    {"id": "1", "type": "parameter", "name": "alpha", "value": 4.0, "min": 0.0, "max": 20.0},
    {"id": "2", "type": "getter", "point": "HiddenStates", "layer": 12, "name": "h"},
    {"id": "3", "type": "constant", "vector": "evil", "row": 12},
    {"id": "4", "type": "operator", "operator": "*", "arguments": [{"node": "1"}, {"node": "3"}]},
    {"id": "5", "type": "operator", "operator": "+", "arguments": [{"node": "2"}, {"node": "4"}]},
    {"id": "6", "type": "setter", "point": "HiddenStates", "layer": 12, "value": {"node": "5"}}]})");
  const std::string text =
      "when(steps=\"100-200\")\n"
      "alpha = param(4.0, min=0.0, max=20.0)\n"
      "h = layers[12].output\n"
      "layers[12].output = h + alpha * vector(\"evil\")[12]\n";
  EXPECT_EQ(to_json(parsed(text)), expected);
  EXPECT_EQ(text_of(expected), text);
}

struct Printed {
  const char* text;
  const char* printed;
};

constexpr Printed kPrinted[] = {
    {"logits=((1+2))*(3)", "logits = (1 + 2) * 3\n"},
    {"logits  =  (1 - 2) - 3  # first", "logits = 1 - 2 - 3\n"},
    {"logits = 1 - (2 - 3)", "logits = 1 - (2 - 3)\n"},
    {"logits = (-2) ** 2", "logits = (-2) ** 2\n"},
    {"logits = (2).abs()", "logits = (2).abs()\n"},
    {"logits = 2 ** 3", "logits = 2 ** 3\n"},
    {"logits = (1 < 2) < 3", "logits = (1 < 2) < 3\n"},
    {"logits = torch.mean(logits)", "logits = mean(logits)\n"},
    {"logits = torch.linalg.norm(logits)", "logits = torch.linalg.norm(logits)\n"},
    {"layers[3].MLP2[:,-1] += 1",
     "layers[3].mlp.output[:, -1] = layers[3].mlp.output[:, -1] + 1\n"},
    {"layers[3].input = 0", "layers[2].output = 0\n"},
    {"layers[1].input = 0", "embedding.output = 0\n"},
    {"Logits = logits[(0,1),]", "logits = logits[(0, 1),]\n"},
    {"layers[3].Query.heads[2].grad = 0", "layers[3].attention.query.grad.heads[2] = 0\n"},
    {"save(value=1, name='a')", "save(1, \"a\")\n"},
    {"save(x(b=1, a=2), 'a', send=False)", "save(x(a=2, b=1), \"a\", send=False)\n"},
    {"if (tokens > 1)[0,0]: skip(layers[2])", "if (tokens > 1)[0, 0]: skip(layers[2])\n"},
    {"logits = noise(logits, 'normal', seed=0)", "logits = noise(logits)\n"},
};

TEST(GraphText, HasNoMoreParenthesesThanNeeded) {
  for (const Printed& c : kPrinted)
    EXPECT_EQ(text_of(to_json(parsed(c.text))), c.printed) << c.text;
}

TEST(GraphText, NodesInAnyOrder) {
  EXPECT_EQ(text_of_nodes(R"([
    {"id": "c", "type": "setter", "point": "Logits", "value": {"node": "b"}},
    {"id": "b", "type": "operator", "operator": "*", "arguments": [{"node": "a"}, 2]},
    {"id": "a", "type": "getter", "point": "Logits"}])"),
            "logits = logits * 2\n");
}

// What a node uses is brought forward; the node does not go back behind the next line.
TEST(GraphText, LinesStayInTheOrderOfTheList) {
  EXPECT_EQ(text_of_nodes(R"([
    {"id": "1", "type": "setter", "point": "Logits", "value": {"node": "3"}},
    {"id": "2", "type": "setter", "point": "Logits", "value": 2},
    {"id": "3", "type": "operator", "operator": "*", "arguments": [{"node": "4"}, 2]},
    {"id": "4", "type": "parameter", "name": "a", "value": 1.0}])"),
            "a = param(1.0)\nlogits = a * 2\nlogits = 2\n");
}

TEST(GraphText, ANodeUsedTwiceGetsAName) {
  EXPECT_EQ(text_of_nodes(R"([
    {"id": "a", "type": "getter", "point": "Logits"},
    {"id": "b", "type": "operator", "operator": "*", "arguments": [{"node": "a"}, {"node": "a"}]},
    {"id": "c", "type": "setter", "point": "Logits", "value": {"node": "b"}}])"),
            "va = logits\nlogits = va * va\n");
}

// v and the id is no name, a word of the language, or another node's.
TEST(GraphText, ANodeWhoseIdMakesNoNameGetsANumber) {
  const std::string text = text_of_nodes(R"([
    {"id": "a__b", "type": "getter", "point": "Logits"},
    {"id": "ector", "type": "operator", "operator": "neg", "arguments": [{"node": "a__b"}]},
    {"id": "1", "type": "operator", "operator": "+",
     "arguments": [{"node": "ector"}, {"node": "ector"}]},
    {"id": "2", "type": "operator", "operator": "*", "name": "v2",
     "arguments": [{"node": "1"}, {"node": "1"}]},
    {"id": "3", "type": "setter", "point": "Logits", "value": {"node": "2"}},
    {"id": "4", "type": "save", "name": "x", "value": {"node": "a__b"}}])");
  EXPECT_EQ(text,
            "v1 = logits\nv3 = -v1\nv4 = v3 + v3\nv2 = v4 * v4\nlogits = v2\nsave(v1, \"x\")\n");
  EXPECT_TRUE(parse_program(text, test_model()).ok());
}

TEST(GraphText, AReadAboveAWriteStaysAboveIt) {
  EXPECT_EQ(text_of_nodes(R"([
    {"id": "1", "type": "getter", "point": "Logits"},
    {"id": "2", "type": "operator", "operator": "neg", "arguments": [{"node": "1"}]},
    {"id": "3", "type": "setter", "point": "Logits", "value": 0},
    {"id": "4", "type": "save", "name": "x", "value": {"node": "2"}}])"),
            "v1 = logits\nlogits = 0\nsave(-v1, \"x\")\n");
}

TEST(GraphText, AConditionOfTwoLinesIsEvaluatedOnce) {
  EXPECT_EQ(text_of_nodes(R"([
    {"id": "1", "type": "saved", "save": "x"},
    {"id": "2", "type": "condition", "value": {"node": "1"}},
    {"id": "3", "type": "setter", "point": "Logits", "value": 0, "condition": "2"},
    {"id": "4", "type": "save", "name": "y", "value": 1, "condition": "2"},
    {"id": "5", "type": "save", "name": "x", "value": 1}])"),
            "v1 = saved(\"x\")\nif v1: logits = 0\nif v1: save(1, \"y\")\nsave(1, \"x\")\n");
}

struct Broken {
  const char* nodes;
  const char* where;
  const char* message;
};

constexpr Broken kBroken[] = {
    {R"([3])", "nodes[0]", "a node is an object"},
    {R"([{"type": "skip"}])", "nodes[0]", "its id is not a string"},
    {R"([{"id": "a b"}])", "nodes[0]", "is not made of letters"},
    {R"([{"id": "\u001b["}])", "nodes[0]", "the id \"?[\""},
    {R"([{"id": "1"}])", "1", "there is no type \"\""},
    {R"([{"id": "1", "type": "geter"}])", "1", "did you mean \"getter\"?"},
    {R"([{"id": "1", "type": "skip"}])", "1", "the skip has no \"layer\""},
    {R"([{"id": "1", "type": "skip", "layer": 1, "layers": 2}])", "1", "did you mean \"layer\"?"},
    {R"([{"id": "1", "type": "skip", "layer": 1}, {"id": "1", "type": "skip", "layer": 2}])", "1",
     "two nodes have this id"},
    {R"([{"id": "1", "type": "skip", "layer": 1.5}])", "1", "a layer is a number"},
    {R"([{"id": "1", "type": "skip", "layer": "layer+x"}])", "1", "a layer is a number"},
    {R"([{"id": "1", "type": "save", "name": "x", "value": {"node": "2"}}])", "1",
     "the node \"2\", which is not there"},
    {R"([{"id": "1", "type": "save", "name": "x", "value": {"node": "1"}}])", "1",
     "which gives no value"},
    {R"([{"id": "1", "type": "operator", "operator": "neg", "arguments": [{"node": "2"}]},
         {"id": "2", "type": "operator", "operator": "neg", "arguments": [{"node": "1"}]}])",
     "1", "a graph has no cycle"},
    {R"([{"id": "1", "type": "operator", "operator": "neg", "arguments": [{"node": "1"}]}])", "1",
     "a graph has no cycle"},
    {R"([{"id": "1", "type": "getter", "point": "Output"}])", "1", "there is no place \"Output\""},
    {R"([{"id": "1", "type": "getter", "point": "MLP2"}])", "1", "MLP2 needs its layer"},
    {R"([{"id": "1", "type": "getter", "point": "Logits", "layer": 1}])", "1",
     "outside the layers"},
    {R"([{"id": "1", "type": "getter", "point": "Logits", "gradient": 1}])", "1", "its gradient"},
    {R"([{"id": "1", "type": "getter", "point": "Logits", "name": "a b"}])", "1",
     "cannot be a name"},
    {R"([{"id": "1", "type": "setter", "point": "Logits", "value": 0, "index": []}])", "1",
     "empty"},
    {R"([{"id": "1", "type": "setter", "point": "Logits", "value": 0, "index": 3}])", "1",
     "its index is not a list"},
    {R"([{"id": "1", "type": "setter", "point": "Logits", "value": 0, "condition": "1"}])", "1",
     "its condition is not the id of a condition"},
    {R"([{"id": "1", "type": "setter", "point": "Logits", "value": [1]}])", "1", "an argument is"},
    {R"([{"id": "1", "type": "setter", "point": "Logits", "value": {"nodes": "1"}}])", "1",
     "no argument of the kind \"nodes\""},
    {R"([{"id": "1", "type": "setter", "point": "Logits", "value": {"slice": [1, 2, 3]}}])", "1",
     "no argument of the kind \"slice\""},
    {R"([{"id": "1", "type": "setter", "point": "Logits", "value": 9223372036854775808}])", "1",
     "does not fit into 64 bits"},
    {R"([{"id": "1", "type": "setter", "point": "Logits", "value": {"name": "logits"}}])", "1",
     "no name that stands alone"},
    {R"([{"id": "1", "type": "setter", "point": "Logits", "value": {"name": "x\ny = 3"}}])", "1",
     "no name that stands alone"},
    {R"([{"id": "1", "type": "setter", "point": "Logits", "value": -9223372036854775808}])", "1",
     "does not fit into 64 bits"},
    {R"([{"id": "1", "type": "getter", "point": "Logits"},
         {"id": "2", "type": "save", "name": "x", "value": {"list": [{"node": "1"}, {"node": "1"}]}},
         {"id": "3", "type": "save", "name": "y", "value": {"name": "v1"}}])",
     "3", "no name that stands alone"},
    {R"([{"id": "1", "type": "constant", "value": 1, "name": "lambda"}])", "1", "cannot be a name"},
    {R"([{"id": "1", "type": "operator", "operator": "not", "form": "method", "arguments": [1]}])",
     "1", "not the name of an operator"},
    {R"([{"id": "1", "type": "operator", "operator": "+", "arguments": 1}])", "1",
     "are not a list"},
    {R"([{"id": "1", "type": "operator", "operator": "+", "arguments": [1]}])", "1",
     "no sign with 1"},
    {R"([{"id": "1", "type": "operator", "operator": "save", "arguments": [1]}])", "1",
     "not the name of an operator"},
    {R"([{"id": "1", "type": "operator", "operator": "a b", "arguments": [1]}])", "1",
     "not the name of an operator"},
    {R"([{"id": "1", "type": "operator", "operator": "x", "form": "way", "arguments": [1]}])", "1",
     "there is no form \"way\""},
    {R"([{"id": "1", "type": "operator", "operator": "x", "form": "method", "arguments": []}])",
     "1", "the operator has no argument"},
    {R"([{"id": "1", "type": "operator", "operator": "x", "arguments": [], "keywords": {"a=1,b": 1}}])",
     "1", "is not the name of an argument"},
    {R"([{"id": "1", "type": "constant", "vector": "v", "tensor": "x"}])", "1", "a constant has"},
    {R"([{"id": "1", "type": "parameter", "name": "a", "value": "4"}])", "1",
     "a number is expected"},
    {R"([{"id": "1", "type": "save", "name": "x", "value": 1, "send": 1}])", "1", "its send"},
};

TEST(GraphJson, EachErrorNamesItsNode) {
  for (const Broken& c : kBroken) {
    const json graph = {{"version", 1}, {"nodes", json::parse(c.nodes)}};
    const auto program = read_program(graph, test_model());
    ASSERT_FALSE(program.ok()) << c.nodes;
    EXPECT_EQ(program.error().code, "invalid_graph");
    EXPECT_EQ(program.error().where, c.where) << c.nodes;
    EXPECT_THAT(program.error().message, HasSubstr(c.message)) << c.nodes;
  }
}

// What the checks of a program find is about a node too.
constexpr Broken kWrong[] = {
    {R"([{"id": "a", "type": "getter", "point": "HiddenStates", "layer": 99},
         {"id": "b", "type": "save", "name": "x", "value": {"node": "a"}}])",
     "a", "there is no layer 99, the model has 24 (node a)\n  save(layers[99].output, \"x\")\n"},
    {R"([{"id": "a", "type": "getter", "point": "HiddenStates", "layer": 20},
         {"id": "b", "type": "setter", "point": "HiddenStates", "layer": 12,
          "value": {"node": "a"}}])",
     "a", "layers[20].output is computed after layers[12].output"},
    {R"([{"id": "a", "type": "saved", "save": "x"},
         {"id": "b", "type": "condition", "value": {"node": "a"}},
         {"id": "c", "type": "skip", "layer": 2, "condition": "b"}])",
     "a", "no line saves \"x\""},
    {R"([{"id": "a", "type": "setter", "point": "InputTokens", "value": 0}])", "a",
     "tokens are read only"},
    {R"([{"id": "a", "type": "parameter", "name": "p", "value": 3.0, "max": 2.0}])", "a",
     "the value is outside of min and max"},
    {R"([{"id": "a", "type": "constant", "value": 3, "name": "logits"}])", "a",
     "\"logits\" stands for itself"},
    {R"([{"id": "a", "type": "constant", "value": 3, "name": "x"}])", "a",
     "the program changes nothing"}};

TEST(GraphJson, EachErrorOfTheProgramNamesItsNode) {
  for (const Broken& c : kWrong) {
    const json graph = {{"version", 1}, {"nodes", json::parse(c.nodes)}};
    const auto program = read_program(graph, test_model());
    ASSERT_FALSE(program.ok()) << c.nodes;
    EXPECT_EQ(program.error().code, "invalid_graph");
    EXPECT_EQ(program.error().where, c.where) << c.nodes;
    EXPECT_THAT(program.error().message, HasSubstr(c.message)) << c.nodes;
  }
}

TEST(GraphJson, TheFrameIsChecked) {
  const auto where = [](const json& graph) {
    const auto program = read_program(graph, test_model());
    return program.ok() ? "" : program.error().where;
  };
  EXPECT_EQ(where(json::array()), "");
  EXPECT_EQ(where({{"nodes", json::array()}}), "version");
  EXPECT_EQ(where({{"version", 2}, {"nodes", json::array()}}), "version");
  EXPECT_EQ(where({{"version", 1}}), "nodes");
  EXPECT_EQ(where({{"version", 1}, {"nodes", json::array()}, {"node", 1}}), "node");
  EXPECT_EQ(where({{"version", 1}, {"nodes", json::array()}, {"when", {{"step", "1"}}}}), "when");
  EXPECT_EQ(where({{"version", 1}, {"nodes", json::array()}, {"when", {{"steps", 1.5}}}}), "when");
  EXPECT_EQ(where({{"version", 1}, {"nodes", json(4001, json::object())}}), "nodes");
  EXPECT_EQ(where({{"version", 1}, {"nodes", json::array()}}), "nodes");
}

TEST(GraphJson, AStringIsReadAsText) {
  EXPECT_TRUE(read_program("logits = 1", test_model()).ok());
  const auto wrong = read_program("logitz = 1", test_model());
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().code, "invalid_expression");
  EXPECT_EQ(read_program(3, test_model()).error().code, "invalid_graph");
}

json chain(std::size_t length) {
  json nodes = {{{"id", "0"}, {"type", "getter"}, {"point", "Logits"}}};
  for (std::size_t i = 1; i < length; ++i) {
    nodes.push_back({{"id", std::to_string(i)},
                     {"type", "operator"},
                     {"operator", "+"},
                     {"arguments", {1, {{"node", std::to_string(i - 1)}}}}});
  }
  nodes.push_back({{"id", "s"},
                   {"type", "setter"},
                   {"point", "Logits"},
                   {"value", {{"node", std::to_string(length - 1)}}}});
  return {{"version", 1}, {"nodes", nodes}};
}

json saves(std::size_t count, const std::string& name) {
  json nodes = json::array();
  for (std::size_t i = 0; i < count; ++i)
    nodes.push_back({{"id", std::to_string(i)}, {"type", "save"}, {"name", name}, {"value", 1}});
  return {{"version", 1}, {"nodes", nodes}};
}

TEST(GraphJson, DepthAndSizeAreBounded) {
  EXPECT_THAT(text_of(chain(90)), HasSubstr("logits = 1 + "));
  EXPECT_THAT(text_of(chain(3000)), HasSubstr("nested deeper than 100"));
  json deep = 1;
  for (int i = 0; i < 300; ++i) deep = {{"list", {deep}}};
  const json graph = {{"version", 1},
                      {"nodes", {{{"id", "1"}, {"type", "save"}, {"name", "x"}, {"value", deep}}}}};
  EXPECT_THAT(text_of(graph), HasSubstr("nested deeper than 100"));
  EXPECT_THAT(text_of(saves(201, "x")), HasSubstr("more than 200 lines"));
  EXPECT_THAT(text_of(saves(150, std::string(200, 'x'))), HasSubstr("more than 16384 bytes"));
  json list = json::array();
  for (int i = 0; i < 4000; ++i) list.push_back(1);
  const json node = {{"id", "1"}, {"type", "save"}, {"name", "x"}, {"value", {{"list", list}}}};
  EXPECT_THAT(text_of({{"version", 1}, {"nodes", {node}}}), HasSubstr("more than 4000 parts"));
}

}  // namespace
}  // namespace tt::graph

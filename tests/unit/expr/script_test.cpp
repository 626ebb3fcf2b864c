#include "tensor_tracer/expr/script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/expr/tree_text.h"

namespace tt::expr {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// "condition ? target = value" of every line.
std::vector<std::string> lines_of(std::string_view text) {
  const auto script = parse_script(text);
  if (!script.ok()) return {"error: " + script.error().message};
  const auto tree = [&](NodeId id) { return tree_text(script.value().ast, id); };
  std::vector<std::string> lines;
  for (const Statement& statement : script.value().statements) {
    std::string line;
    if (statement.condition != kNoNode) line += tree(statement.condition) + " ? ";
    if (statement.target != kNoNode) line += tree(statement.target) + " = ";
    lines.push_back(line + tree(statement.value));
  }
  return lines;
}

TEST(Script, ReadsOneStatementToALine) {
  EXPECT_THAT(lines_of("# first\n\na = 1 + 2  # one\r\n\n  b[:, -1] = a\nsave(b, \"x\")\n"),
              ElementsAre("a = (+ 1 2)", "(index b (tuple (slice _ _ _) (neg 1))) = a",
                          "(call save b \"x\")"));
  EXPECT_THAT(lines_of("a = (1 +\n  2)\nb = 3"), ElementsAre("a = (+ 1 2)", "b = 3"));
  EXPECT_THAT(lines_of("if a > 0: b = 1\nif a[:, 0]: f(x)"),
              ElementsAre("(> a 0) ? b = 1", "(index a (tuple (slice _ _ _) 0)) ? (call f x)"));
}

TEST(Script, CompoundAssignmentsShareTheirTarget) {
  EXPECT_THAT(lines_of("a += 1\na -= 2 * 3\na *= 4\na /= 5"),
              ElementsAre("a = (+ a 1)", "a = (- a (* 2 3))", "a = (* a 4)", "a = (/ a 5)"));
  const auto script = parse_script("a.b += 1 + 2");
  ASSERT_TRUE(script.ok());
  const Statement& statement = script.value().statements[0];
  const Node& sum = script.value().ast.node(statement.value);
  EXPECT_EQ(sum.children[0], statement.target);
  EXPECT_EQ(sum.span.begin, 0U);
  EXPECT_EQ(sum.span.end, 12U);
}

TEST(Script, StatementsKnowTheirPlace) {
  const std::string text = "a = 1\n  if a: b += (2)\n";
  const auto script = parse_script(text);
  ASSERT_TRUE(script.ok());
  const Span span = script.value().statements[1].span;
  EXPECT_EQ(text.substr(span.begin, span.end - span.begin), "if a: b += (2)");
  EXPECT_EQ(script.value().ast.root(), script.value().statements[1].value);
  EXPECT_EQ(script.value().ast.source(), text);
}

struct Case {
  const char* text;
  const char* where;
  const char* message;
  const char* remedy;
};

constexpr Case kCases[] = {
    {"", "line 1, column 1", "there is no line to read", "at least one"},
    {"# nothing\n\n", "line 3, column 1", "there is no line to read", ""},
    {"a = 1\nif a:\n  b = 1", "line 2, column 6", "no blocks of several lines", "on one line"},
    {"if a:", "line 1, column 6", "no blocks of several lines", ""},
    {"if a b = 1", "line 1, column 6", "expected \":\" behind the condition", ""},
    {"if a: if b: c = 1", "line 1, column 7", "an \"if\" inside an \"if\"", "(a) & (b)"},
    {"if a: b = 1\nelse: b = 2", "line 2, column 1", "there is no \"else\"", "if ~(...):"},
    {"elif a: b = 2", "line 1, column 1", "there is no \"elif\"", "opposite condition"},
    {"for i in x: y = 1", "line 1, column 1", "no loops", "layers[layer]"},
    {"while a: b = 1", "line 1, column 1", "no loops", "layers[layer]"},
    {"def f(x): x", "line 1, column 1", "cannot define functions", "name = expression"},
    {"f = lambda x: x", "line 1, column 5", "cannot define functions", ""},
    {"import torch", "line 1, column 1", "\"import\" is not part of the language", "a line is"},
    {"return a", "line 1, column 1", "\"return\" is not part of the language", "a line is"},
    {"a = b = 1", "line 1, column 7", "an assignment inside", "a line has one ="},
    {"a = (b = 1)", "line 1, column 8", "an assignment inside", "to compare, write =="},
    {"a = (b := 1)", "line 1, column 8", "an assignment inside", "separate line"},
    {"a += b += 1", "line 1, column 8", "an assignment inside", ""},
    {"a //= 2", "line 1, column 3", "there is no \"//=\"", "a = a // b"},
    {"a @= b", "line 1, column 3", "there is no \"@=\"", "a = a @ b"},
    {"a, b = 1", "line 1, column 2", "one value, not several", "one line for each"},
    {"a = 1, 2", "line 1, column 6", "one value, not several", ""},
    {"a b", "line 1, column 3", "expected an operator or the end of the line", ""},
    {"a: int = 1", "line 1, column 2", "expected an operator or the end of the line", ""},
    {"a = x if b else y", "line 1, column 7", "no conditional expression", "where(condition"},
    {"a = b and c", "line 1, column 7", "\"and\" does not work", "(a) & (b)"},
    {"a = 1; b = 2", "line 1, column 6", "this character is not part", ""},
    {"a =", "line 1, column 4", "expected a value but found the end", ""},
    {"a = (1\nb = 2", "line 2, column 1", "expected \",\" or \")\"", ""},
    {"a = \xFF", "line 1, column 5", "the script is not valid UTF-8", ""},
};

TEST(Script, RefusalsSayWhereWhatAndWhatInstead) {
  for (const Case& c : kCases) {
    const auto script = parse_script(c.text);
    ASSERT_FALSE(script.ok()) << c.text;
    EXPECT_EQ(script.error().code, "invalid_expression") << c.text;
    EXPECT_EQ(script.error().where, c.where) << c.text;
    EXPECT_THAT(script.error().message, HasSubstr(c.message)) << c.text;
    EXPECT_THAT(script.error().remedy, HasSubstr(c.remedy)) << c.text;
    EXPECT_THAT(script.error().message + script.error().remedy,
                testing::Not(HasSubstr("there are no statements")));
  }
}

std::string repeat(std::string_view piece, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += piece;
  return text;
}

std::string problem(const std::string& text) {
  const auto script = parse_script(text);
  return script.ok() ? "" : script.error().message;
}

TEST(Script, Limits) {
  EXPECT_EQ(problem(repeat("a = 1\n", kMaxStatements)), "");
  EXPECT_THAT(problem(repeat("a = 1\n", kMaxStatements + 1)),
              HasSubstr("more than 200 statements"));
  EXPECT_EQ(problem("a = 1 #" + repeat("x", kScriptLimits.max_source_bytes - 7)), "");
  EXPECT_THAT(problem("a = 1 #" + repeat("x", kScriptLimits.max_source_bytes - 6)),
              HasSubstr("the script has 16385 bytes, the limit is 16384"));
  EXPECT_EQ(problem("a = [" + repeat("1,", 3998) + "]"), "");
  EXPECT_THAT(problem("a = [" + repeat("1,", 3999) + "]"),
              HasSubstr("the script has more than 4000 parts"));
  EXPECT_THAT(problem("a = " + repeat("(", 200)), HasSubstr("nested deeper than 100"));
  EXPECT_THAT(problem("a = a" + repeat("+a", 100)), HasSubstr("nested deeper than 100"));
}

}  // namespace
}  // namespace tt::expr

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensor_tracer/expr/diagnostic.h"
#include "tensor_tracer/expr/parse.h"

namespace tt::expr {
namespace {

using testing::HasSubstr;

struct Case {
  const char* text;
  const char* where;
  const char* message;
  const char* remedy;
};

constexpr Case kCases[] = {
    {"", "line 1, column 1", "expected a value but found the end", ""},
    {"a +", "line 1, column 4", "expected a value but found the end", ""},
    {"a b", "line 1, column 3", "expected an operator or the end but found \"b\"", ""},
    {"f(a", "line 1, column 4", "expected \",\" or \")\" but found the end", ""},
    {"f(a]", "line 1, column 4", "expected \",\" or \")\" but found \"]\"", ""},
    {"(a", "line 1, column 3", "expected \",\"", ""},
    {"a.", "line 1, column 3", "a name after the dot", ""},
    {"a.1", "line 1, column 2", "an operator or the end", ""},
    {"a[]", "line 1, column 2", "no index between the brackets", "[:]"},
    {"a[1 2]", "line 1, column 5", "expected", ""},
    {"a[::1:]", "line 1, column 6", "at most two colons", ""},
    {"a, b", "line 1, column 2", "one value, not several", "stack"},
    {"a\nb", "line 2, column 1", "goes on after its end", "parentheses"},
    {"lambda x: x", "line 1, column 1", "cannot define functions", "formula"},
    {"[x for x in data]", "line 1, column 4", "no comprehensions", "dim="},
    {"a and b", "line 1, column 3", "\"and\" does not work on tensors", "(a) & (b)"},
    {"f(or=1)", "line 1, column 3", "\"or\" does not work on tensors", ""},
    {"a or b", "line 1, column 3", "\"or\" does not work on tensors", "(a) | (b)"},
    {"not a", "line 1, column 1", "\"not\" does not work on tensors", "~(mask)"},
    {"0 < a < 1", "line 1, column 7", "comparisons cannot be chained", "(a < b) & (b < c)"},
    {"a > 0 & a < 1", "line 1, column 11", "comparisons cannot be chained", "tighter"},
    {"a if b else c", "line 1, column 3", "no conditional expression", "where(condition, a, b)"},
    {"a in b", "line 1, column 3", "\"in\" is not part", ".any()"},
    {"a is None", "line 1, column 3", "\"is\" is not part", "=="},
    {"a.__class__", "line 1, column 3", "two underscores", "Python keeps such names"},
    {"__import__('os')", "line 1, column 1", "two underscores", ""},
    {"f'{a}'", "line 1, column 1", "a string with the prefix \"f\"", "without a prefix"},
    {"rb\"a\"", "line 1, column 1", "a string with the prefix \"rb\"", ""},
    {"\"\"\"a\"\"\"", "line 1, column 1", "triple quotes", ""},
    {"'a", "line 1, column 1", "the string has no end", "close it"},
    {"'a' 'b'", "line 1, column 5", "two strings in a row", ""},
    {R"('\x41')", "line 1, column 2", "unknown escape", ""},
    {"a = 1", "line 1, column 3", "an assignment", "write =="},
    {"(a := 1)", "line 1, column 4", "an assignment", ""},
    {"a += 1", "line 1, column 3", "changes nothing", "a + b"},
    {"a << 1", "line 1, column 3", "shifts", "power of two"},
    {"{1: 2}", "line 1, column 1", "sets and dictionaries", "list"},
    {"f(*a)", "line 1, column 3", "no unpacking with *", "write the items out"},
    {"f(**a)", "line 1, column 3", "no unpacking with **", ""},
    {"f(k=1, 2)", "line 1, column 8", "positional argument stands after a named one", ""},
    {"f(k=1, k=2)", "line 1, column 8", "\"k\" is given twice", ""},
    {"import os", "line 1, column 1", "\"import\" is not part", "no statements"},
    {"a; b", "line 1, column 2", "this character is not part", ""},
    {"a <> b", "line 1, column 3", "\"<>\" is not part", "!="},
    {"0x10", "line 1, column 1", "\"0x10\" is not a number", "hexadecimal"},
    {"1j", "line 1, column 1", "is not a number", "complex"},
    {"012", "line 1, column 1", "is not a number", "leading zeros"},
    {"1__0", "line 1, column 1", "is not a number", ""},
    {"9223372036854775808", "line 1, column 1", "does not fit into 64 bits", "1e20"},
    {"1e999", "line 1, column 1", "does not fit into a float", "inf"},
    {"a \xE2\x88\x92 b", "line 1, column 3", "this character is not part", ""},
    {"\xC3\xA9 + 1", "line 1, column 1", "this character is not part", ""},
    {"a \xFF", "line 1, column 3", "not valid UTF-8", ""},
};

TEST(Refusal, SaysWhereWhatAndWhatInstead) {
  for (const Case& c : kCases) {
    const auto ast = parse(c.text);
    ASSERT_FALSE(ast.ok()) << c.text;
    EXPECT_EQ(ast.error().code, "invalid_expression") << c.text;
    EXPECT_EQ(ast.error().where, c.where) << c.text;
    EXPECT_THAT(ast.error().message, HasSubstr(c.message)) << c.text;
    EXPECT_THAT(ast.error().message, HasSubstr(c.where)) << c.text;
    EXPECT_THAT(ast.error().remedy, HasSubstr(c.remedy)) << c.text;
  }
}

TEST(Diagnostic, ShowsTheLineAndACaret) {
  const auto ast = parse("(data.mean() +\n  data.sum() lambda)");
  ASSERT_FALSE(ast.ok());
  EXPECT_EQ(ast.error().message,
            "a program cannot define functions (line 2, column 14)\n"
            "    data.sum() lambda)\n"
            "               ^~~~~~");
}

TEST(Diagnostic, CountsCharactersNotBytes) {
  const std::string text = "'\xC3\xA9\xC3\xA9' + lambda";
  const auto ast = parse(text);
  ASSERT_FALSE(ast.ok());
  EXPECT_EQ(ast.error().message, "a program cannot define functions (line 1, column 8)\n  " + text +
                                     "\n         ^~~~~~");
}

TEST(Diagnostic, ShowsNoControlCharactersAndNoBrokenUtf8) {
  const auto ast = parse("a\t\x1B[2J \xFF");
  ASSERT_FALSE(ast.ok());
  EXPECT_THAT(ast.error().message, HasSubstr("\n  a ?[2J ?\n"));
}

TEST(Diagnostic, ShowsOnlyThePieceOfALongLine) {
  const auto ast = parse(std::string(300, ' ') + "lambda" + std::string(300, ' '));
  ASSERT_FALSE(ast.ok());
  EXPECT_THAT(ast.error().message, HasSubstr("column 301"));
  EXPECT_LT(ast.error().message.size(), 300U);
  EXPECT_THAT(ast.error().message, HasSubstr("\n  ..." + std::string(60, ' ') + "lambda"));
  EXPECT_THAT(ast.error().message, HasSubstr("\n     " + std::string(60, ' ') + "^~~~~~"));
}

TEST(Diagnostic, ShowsNoControlCharactersInItsSentence) {
  const base::Error error = to_error("a", {{0, 1}, "the string \x1B[2J", "a\nb"});
  EXPECT_THAT(error.message, HasSubstr("the string ?[2J (line 1"));
  EXPECT_EQ(error.remedy, "a?b");
}

TEST(Diagnostic, SuggestsANearWord) {
  EXPECT_EQ(suggestion("maen", {"mean", "sum"}), ", did you mean \"mean\"?");
  EXPECT_EQ(suggestion("quantile", {"mean", "sum"}), "");
}

}  // namespace
}  // namespace tt::expr

#include <array>

#include "src/expr/parser.h"

namespace tt::expr {
namespace {

struct Compound {
  std::string_view text;
  Operator op;
};

constexpr std::array kCompounds = {
    Compound{"+=", Operator::kAdd}, Compound{"-=", Operator::kSubtract},
    Compound{"*=", Operator::kMultiply}, Compound{"/=", Operator::kDivide}};

}  // namespace

std::vector<Statement> Parser::parse_statements() {
  std::vector<Statement> statements;
  skip_newlines();
  if (peek().kind == TokenKind::kEnd) {
    fail(peek().span, "there is no line to read", "write at least one");
  }
  while (!problem_ && peek().kind != TokenKind::kEnd) {
    if (statements.size() == kMaxStatements) {
      fail(peek().span,
           "the script has more than " + std::to_string(kMaxStatements) + " statements",
           "split it");
      break;
    }
    statements.push_back(parse_statement());
    skip_newlines();
  }
  return statements;
}

Statement Parser::parse_statement() {
  Statement statement;
  const std::uint32_t begin = peek().span.begin;
  if (peek().kind == TokenKind::kName && peek().text == "if") {
    statement.condition = parse_condition();
  }
  if (!problem_) parse_assignment(statement);
  if (!problem_) expect_line_end();
  statement.span = span_from(begin);
  return statement;
}

// `if condition:`, up to what stands behind the colon on the same line.
NodeId Parser::parse_condition() {
  ++at_;
  const NodeId condition = parse_expression();
  if (problem_ || !expect(":", "behind the condition")) return kNoNode;
  if (peek().kind == TokenKind::kNewline || peek().kind == TokenKind::kEnd) {
    return fail(peek().span, "there are no blocks of several lines",
                "write it on one line: if condition: place = value");
  }
  if (peek().kind == TokenKind::kName && peek().text == "if") {
    return fail(peek().span, "an \"if\" inside an \"if\"", "write if (a) & (b): ...");
  }
  return condition;
}

// `value`, `target = value` or `target += value`.
void Parser::parse_assignment(Statement& statement) {
  const std::uint32_t begin = peek().span.begin;
  statement.value = parse_expression();
  if (problem_) return;
  if (accept("=")) {
    statement.target = statement.value;
    statement.value = parse_expression();
    return;
  }
  for (const Compound& compound : kCompounds) {
    const Span op_span = peek().span;
    if (!accept(compound.text)) continue;
    statement.target = statement.value;
    const NodeId right = parse_expression();
    if (problem_) return;
    statement.value = add({Kind::kBinary,
                           compound.op,
                           span_from(begin),
                           op_span,
                           0,
                           0,
                           "",
                           {statement.target, right}});
    return;
  }
}

bool Parser::expect_line_end() {
  if (peek().kind == TokenKind::kNewline || peek().kind == TokenKind::kEnd) return true;
  if (is_at(",")) {
    fail(peek().span, "a line gives one value, not several", "write one line for each");
  } else {
    refuse_token("an operator or the end of the line");
  }
  return false;
}

}  // namespace tt::expr

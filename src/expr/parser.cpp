#include "src/expr/parser.h"

#include <algorithm>
#include <array>

namespace tt::expr {
namespace {

struct BinaryOperator {
  std::string_view text;
  Operator op;
  int level;  // the higher, the tighter it binds
};

constexpr std::array kBinary = {
    BinaryOperator{"==", Operator::kEqual, kComparisonLevel},
    BinaryOperator{"!=", Operator::kNotEqual, kComparisonLevel},
    BinaryOperator{"<", Operator::kLess, kComparisonLevel},
    BinaryOperator{"<=", Operator::kLessEqual, kComparisonLevel},
    BinaryOperator{">", Operator::kGreater, kComparisonLevel},
    BinaryOperator{">=", Operator::kGreaterEqual, kComparisonLevel},
    BinaryOperator{"|", Operator::kOr, 2},
    BinaryOperator{"^", Operator::kXor, 3},
    BinaryOperator{"&", Operator::kAnd, 4},
    BinaryOperator{"+", Operator::kAdd, 5},
    BinaryOperator{"-", Operator::kSubtract, 5},
    BinaryOperator{"*", Operator::kMultiply, 6},
    BinaryOperator{"/", Operator::kDivide, 6},
    BinaryOperator{"//", Operator::kFloorDivide, 6},
    BinaryOperator{"%", Operator::kRemainder, 6},
    BinaryOperator{"@", Operator::kMatmul, 6},
};

const BinaryOperator* find_binary(const Token& token) {
  if (token.kind != TokenKind::kPunctuation) return nullptr;
  const auto found = std::ranges::find(kBinary, token.text, &BinaryOperator::text);
  return found == kBinary.end() ? nullptr : &*found;
}

std::string shown(const Token& token) {
  switch (token.kind) {
    case TokenKind::kEnd:
      return "the end";
    case TokenKind::kNewline:
      return "the end of the line";
    case TokenKind::kString:
      return "a string";
    default:
      return "\"" + token.text + "\"";
  }
}

}  // namespace

int binding_level(Operator op) {
  const auto found = std::ranges::find(kBinary, op, &BinaryOperator::op);
  return found == kBinary.end() ? kPowerLevel : found->level;
}

Parser::Parser(std::vector<Token> tokens, const Limits& limits, Form form)
    : tokens_(std::move(tokens)), limits_(limits), form_(form) {}

const Token& Parser::peek(std::size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

bool Parser::is_at(std::string_view punctuation) const {
  return peek().kind == TokenKind::kPunctuation && peek().text == punctuation;
}

bool Parser::accept(std::string_view punctuation) {
  if (!is_at(punctuation)) return false;
  last_end_ = tokens_[at_++].span.end;
  return true;
}

bool Parser::expect(std::string_view punctuation, const std::string& where) {
  if (problem_) return false;
  if (accept(punctuation)) return true;
  refuse_token("\"" + std::string(punctuation) + "\" " + where);
  return false;
}

NodeId Parser::fail(Span span, std::string what, std::string remedy) {
  if (!problem_) problem_ = Problem{span, std::move(what), std::move(remedy)};
  return kNoNode;
}

// The token that stands where `expected` should.
NodeId Parser::refuse_token(const std::string& expected) {
  if (const auto refusal = find_refusal(peek(), form_)) {
    return fail(refusal->span, refusal->what, refusal->remedy);
  }
  return fail(peek().span, "expected " + expected + " but found " + shown(peek()), "");
}

void Parser::skip_newlines() {
  while (peek().kind == TokenKind::kNewline) ++at_;
}

bool Parser::expect_end() {
  if (problem_) return false;
  const bool is_second_line = peek().kind == TokenKind::kNewline;
  skip_newlines();
  if (peek().kind == TokenKind::kEnd) return true;
  if (is_second_line) {
    fail(peek().span, "the expression goes on after its end",
         "put parentheses around an expression of several lines");
  } else if (is_at(",")) {
    fail(peek().span, "an expression gives one value, not several",
         "write stack([a, b]), or two expressions");
  } else {
    refuse_token("an operator or the end");
  }
  return false;
}

NodeId Parser::add(Node node) {
  if (problem_) return kNoNode;
  std::size_t depth = 0;
  for (const NodeId child : node.children) {
    if (child != kNoNode) depth = std::max(depth, depths_[child]);
  }
  if (++depth > limits_.max_depth) {
    return fail(node.span,
                "the expression is nested deeper than " + std::to_string(limits_.max_depth),
                "split it, or use stack([...]).sum(0) for a long sum");
  }
  if (nodes_.size() >= limits_.max_nodes) {
    return fail(
        node.span,
        (form_ == Form::kScript ? "the script has more than " : "the expression has more than ") +
            std::to_string(limits_.max_nodes) + " parts",
        "split it");
  }
  nodes_.push_back(std::move(node));
  depths_.push_back(depth);
  return static_cast<NodeId>(nodes_.size() - 1);
}

NodeId Parser::parse_expression() { return parse_binary(kComparisonLevel); }

// a < b < c means (a < b) and (b < c) in Python, which tensors have not.
bool Parser::check_not_chained(Operator op) {
  const BinaryOperator* next = find_binary(peek());
  const auto is_comparison = [](Operator o) {
    return o >= Operator::kEqual && o <= Operator::kGreaterEqual;
  };
  if (!is_comparison(op) || next == nullptr || !is_comparison(next->op)) return true;
  fail(peek().span, "comparisons cannot be chained",
       "write (a < b) & (b < c); & binds tighter than <, so both need their parentheses");
  return false;
}

NodeId Parser::parse_binary(int level) {
  const std::uint32_t begin = peek().span.begin;
  NodeId left = parse_unary();
  while (!problem_) {
    const BinaryOperator* binary = find_binary(peek());
    if (binary == nullptr || binary->level < level) break;
    const Span op_span = peek().span;
    accept(binary->text);
    const NodeId right = parse_binary(binary->level + 1);
    if (problem_ || !check_not_chained(binary->op)) break;
    left = add({Kind::kBinary, binary->op, span_from(begin), op_span, 0, 0, "", {left, right}});
  }
  return problem_ ? kNoNode : left;
}

// All nesting comes through here, so this is where it is bounded.
NodeId Parser::parse_unary() {
  if (problem_) return kNoNode;
  if (nesting_ >= limits_.max_depth) {
    return fail(peek().span,
                "the expression is nested deeper than " + std::to_string(limits_.max_depth),
                "split it, or take parentheses away");
  }
  ++nesting_;
  const NodeId node = parse_signed();
  --nesting_;
  return node;
}

NodeId Parser::parse_signed() {
  const Span op_span = peek().span;
  Operator op = Operator::kNoOperator;
  if (accept("-"))
    op = Operator::kNegative;
  else if (accept("+"))
    op = Operator::kPositive;
  else if (accept("~"))
    op = Operator::kInvert;
  if (op == Operator::kNoOperator) return parse_power();
  const NodeId operand = parse_unary();
  if (problem_) return kNoNode;
  return add({Kind::kUnary, op, span_from(op_span.begin), op_span, 0, 0, "", {operand}});
}

// Binds tighter than the sign on its left and looser than the one on its right: -a ** -b.
NodeId Parser::parse_power() {
  const std::uint32_t begin = peek().span.begin;
  const NodeId base = parse_primary();
  if (problem_ || !is_at("**")) return base;
  const Span op_span = peek().span;
  accept("**");
  const NodeId exponent = parse_unary();
  if (problem_) return kNoNode;
  return add(
      {Kind::kBinary, Operator::kPower, span_from(begin), op_span, 0, 0, "", {base, exponent}});
}

}  // namespace tt::expr

#include "src/expr/parser.h"

#include <algorithm>
#include <array>

namespace tt::expr {
namespace {

struct BinaryOperator {
  std::string_view text;
  Operator op;
  int level;  // a higher level binds more strongly
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

const BinaryOperator* find_binary(std::string_view text) {
  const auto found = std::ranges::find(kBinary, text, &BinaryOperator::text);
  return found == kBinary.end() ? nullptr : &*found;
}

const BinaryOperator* find_binary(const Token& token) {
  return token.kind == TokenKind::kPunctuation ? find_binary(token.text) : nullptr;
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

// Refuses the token at the place of `expected`.
NodeId Parser::refuse_token(const std::string& expected) {
  if (const auto refusal = find_refusal(peek(), form_))
    return fail(refusal->span, refusal->what, refusal->remedy);
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
  for (const NodeId child : node.children)
    if (child != kNoNode) depth = std::max(depth, depths_[child]);
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

NodeId Parser::add_binary(Operator op, Span op_span, std::uint32_t begin, NodeId left,
                          NodeId right) {
  return add({.kind = Kind::kBinary,
              .op = op,
              .span = span_from(begin),
              .name_span = op_span,
              .children = {left, right}});
}

NodeId Parser::parse_expression() { return parse_binary(kComparisonLevel); }

// In Python a < b < c means (a < b) and (b < c); tensors do not have this form.
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
    left = add_binary(binary->op, op_span, begin, left, right);
  }
  return problem_ ? kNoNode : left;
}

// Every nesting passes through this function, so the depth is checked here.
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
  return add({.kind = Kind::kUnary,
              .op = op,
              .span = span_from(op_span.begin),
              .name_span = op_span,
              .children = {operand}});
}

// Binds more strongly than a sign on its left, and less strongly than a sign on its right: -a **
// -b.
NodeId Parser::parse_power() {
  const std::uint32_t begin = peek().span.begin;
  const NodeId base = parse_primary();
  if (problem_ || !is_at("**")) return base;
  const Span op_span = peek().span;
  accept("**");
  const NodeId exponent = parse_unary();
  if (problem_) return kNoNode;
  return add_binary(Operator::kPower, op_span, begin, base, exponent);
}

// An atom and its suffixes: .name, (arguments), [subscript].
NodeId Parser::parse_primary() {
  const std::uint32_t begin = peek().span.begin;
  NodeId node = parse_atom();
  while (!problem_)
    if (accept("."))
      node = parse_attribute(node, begin);
    else if (accept("("))
      node = parse_call(node, begin);
    else if (accept("["))
      node = parse_subscript(node, begin);
    else
      return node;
  return kNoNode;
}

NodeId Parser::add_leaf(Kind kind) {
  const Token token = peek();
  last_end_ = tokens_[at_++].span.end;
  return add({.kind = kind,
              .span = token.span,
              .name_span = token.span,
              .integer = token.integer,
              .real = token.real,
              .text = token.text});
}

NodeId Parser::parse_atom() {
  switch (peek().kind) {
    case TokenKind::kInt:
      return add_leaf(Kind::kInt);
    case TokenKind::kFloat:
      return add_leaf(Kind::kFloat);
    case TokenKind::kName:
      return parse_name();
    case TokenKind::kString: {
      const NodeId node = add_leaf(Kind::kString);
      if (!problem_ && peek().kind == TokenKind::kString)
        return fail(peek().span, "two strings in a row", "write one string");
      return node;
    }
    default:
      break;
  }
  if (is_at("(") || is_at("[")) return parse_sequence();
  if (is_at("...")) return add_leaf(Kind::kEllipsis);
  return refuse_token("a value");
}

NodeId Parser::parse_name() {
  const std::string& word = peek().text;
  if (word == "True") return add_leaf(Kind::kTrue);
  if (word == "False") return add_leaf(Kind::kFalse);
  if (word == "None") return add_leaf(Kind::kNone);
  return is_keyword(word) ? refuse_token("a value") : add_leaf(Kind::kName);
}

// Reads items separated by commas, with an optional last comma, up to and including the closing
// bracket.
bool Parser::parse_items(std::string_view closing, std::vector<NodeId>& items, bool& has_comma,
                         NodeId (Parser::*parse_item)()) {
  has_comma = false;
  while (!problem_ && !accept(closing)) {
    if (is_at("*") || is_at("**")) {
      fail(peek().span, "there is no unpacking with " + peek().text, "write the items out");
      break;
    }
    items.push_back((this->*parse_item)());
    if (problem_ || accept(closing)) break;
    has_comma = true;
    if (!expect(",", "or \"" + std::string(closing) + "\"")) break;
  }
  return !problem_;
}

// (a), (a, b), [a, b].
NodeId Parser::parse_sequence() {
  const std::uint32_t begin = peek().span.begin;
  const bool is_list = accept("[");
  if (!is_list) accept("(");
  std::vector<NodeId> items;
  bool has_comma = false;
  if (!parse_items(is_list ? "]" : ")", items, has_comma, &Parser::parse_expression))
    return kNoNode;
  if (!is_list && items.size() == 1 && !has_comma) return items.front();
  return add(
      {.kind = is_list ? Kind::kList : Kind::kTuple, .span = span_from(begin), .children = items});
}

NodeId Parser::parse_attribute(NodeId object, std::uint32_t begin) {
  const Token name = peek();
  if (name.kind != TokenKind::kName || is_keyword(name.text))
    return refuse_token("a name after the dot");
  last_end_ = tokens_[at_++].span.end;
  return add({.kind = Kind::kAttribute,
              .span = span_from(begin),
              .name_span = name.span,
              .text = name.text,
              .children = {object}});
}

NodeId Parser::parse_argument() {
  const Token name = peek();
  const bool is_keyword_argument = name.kind == TokenKind::kName && !is_keyword(name.text) &&
                                   peek(1).kind == TokenKind::kPunctuation && peek(1).text == "=";
  if (!is_keyword_argument) return parse_expression();
  at_ += 2;
  const NodeId value = parse_expression();
  if (problem_) return kNoNode;
  return add({.kind = Kind::kKeyword,
              .span = span_from(name.span.begin),
              .name_span = name.span,
              .text = name.text,
              .children = {value}});
}

NodeId Parser::parse_call(NodeId callee, std::uint32_t begin) {
  std::vector<NodeId> children = {callee};
  bool has_comma = false;
  if (!parse_items(")", children, has_comma, &Parser::parse_argument)) return kNoNode;
  for (std::size_t i = 2; i < children.size(); ++i) {
    const Node& node = nodes_[children[i]];
    if (node.kind != Kind::kKeyword && nodes_[children[i - 1]].kind == Kind::kKeyword) {
      return fail(node.span, "a positional argument stands after a named one",
                  "put it in front, or name it");
    }
    for (std::size_t j = 1; j < i && node.kind == Kind::kKeyword; ++j) {
      const Node& other = nodes_[children[j]];
      if (other.kind == Kind::kKeyword && other.text == node.text) {
        return fail(node.name_span, "the argument \"" + node.text + "\" is given twice",
                    "give it once");
      }
    }
  }
  return add({.kind = Kind::kCall, .span = span_from(begin), .children = children});
}

NodeId Parser::parse_subscript(NodeId object, std::uint32_t begin) {
  const std::uint32_t bracket = last_end_ - 1;
  const std::uint32_t inside = peek().span.begin;
  std::vector<NodeId> items;
  bool has_comma = false;
  if (!parse_items("]", items, has_comma, &Parser::parse_subscript_item)) return kNoNode;
  if (items.empty())
    return fail(span_from(bracket), "there is no index between the brackets", "write [:] for all");
  NodeId subscript = items.front();
  if (has_comma) {
    const Span span{inside, nodes_[items.back()].span.end};
    subscript = add({.kind = Kind::kTuple, .span = span, .children = items});
  }
  return add({.kind = Kind::kIndex, .span = span_from(begin), .children = {object, subscript}});
}

// An expression, or start:stop:step; each of the three parts may be missing.
NodeId Parser::parse_subscript_item() {
  const std::uint32_t begin = peek().span.begin;
  std::vector<NodeId> parts(3, kNoNode);
  std::size_t colons = 0;
  while (!problem_ && !is_at("]") && !is_at(",")) {
    if (accept(":")) {
      if (++colons > 2)
        return fail({last_end_ - 1, last_end_}, "a slice has at most two colons", "");
    } else if (parts[colons] != kNoNode) {
      return refuse_token("\",\", \":\" or \"]\"");
    } else {
      parts[colons] = parse_expression();
    }
  }
  if (problem_) return kNoNode;
  if (colons == 0) return parts[0] == kNoNode ? refuse_token("an index") : parts[0];
  return add({.kind = Kind::kSlice, .span = span_from(begin), .children = parts});
}

std::vector<Statement> Parser::parse_statements() {
  std::vector<Statement> statements;
  skip_newlines();
  if (peek().kind == TokenKind::kEnd)
    fail(peek().span, "there is no line to read", "write at least one");
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
  if (peek().kind == TokenKind::kName && peek().text == "if")
    statement.condition = parse_condition();
  if (!problem_) parse_assignment(statement);
  if (!problem_) expect_line_end();
  statement.span = span_from(begin);
  return statement;
}

// `if condition:`; the rest of the statement is on the same line.
NodeId Parser::parse_condition() {
  ++at_;
  const NodeId condition = parse_expression();
  if (problem_ || !expect(":", "behind the condition")) return kNoNode;
  if (peek().kind == TokenKind::kNewline || peek().kind == TokenKind::kEnd) {
    return fail(peek().span, "there are no blocks of several lines",
                "write it on one line: if condition: place = value");
  }
  if (peek().kind == TokenKind::kName && peek().text == "if")
    return fail(peek().span, "an \"if\" inside an \"if\"", "write if (a) & (b): ...");
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
  for (const std::string_view compound : {"+=", "-=", "*=", "/="}) {
    const Span op_span = peek().span;
    if (!accept(compound)) continue;
    const Operator op = find_binary(compound.substr(0, 1))->op;
    statement.target = statement.value;
    const NodeId right = parse_expression();
    if (problem_) return;
    statement.value = add_binary(op, op_span, begin, statement.target, right);
    return;
  }
}

bool Parser::expect_line_end() {
  if (peek().kind == TokenKind::kNewline || peek().kind == TokenKind::kEnd) return true;
  if (is_at(","))
    fail(peek().span, "a line gives one value, not several", "write one line for each");
  else
    refuse_token("an operator or the end of the line");
  return false;
}

}  // namespace tt::expr

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/expr/lexer.h"
#include "src/expr/refusals.h"
#include "tensor_tracer/expr/ast.h"
#include "tensor_tracer/expr/diagnostic.h"
#include "tensor_tracer/expr/limits.h"
#include "tensor_tracer/expr/script.h"

namespace tt::expr {

/// The binding strength of a binary operator: from 1 for comparisons (the weakest) to 6 for the
/// product; ** has 8.
int binding_level(Operator op);
inline constexpr int kComparisonLevel = 1;
inline constexpr int kUnaryLevel = 7;
inline constexpr int kPowerLevel = 8;

/// Builds the nodes of expressions by recursive descent. After the first problem every function
/// returns kNoNode. The limits must outlive it. Thread: one.
class Parser {
 public:
  Parser(std::vector<Token> tokens, const Limits& limits, Form form = Form::kExpression);

  /// Reads one expression without a comma at its top level.
  NodeId parse_expression();
  /// Skips line ends. True at the end of the text; else the next token is the problem.
  bool expect_end();
  void skip_newlines();
  /// Reads all lines up to the end of the text.
  std::vector<Statement> parse_statements();

  const std::optional<Problem>& problem() const { return problem_; }
  std::vector<Node> take_nodes() { return std::move(nodes_); }

 private:
  Statement parse_statement();
  NodeId parse_condition();
  void parse_assignment(Statement& statement);
  bool expect_line_end();
  // Operators, from the weakest binding to the strongest.
  NodeId parse_binary(int level);
  NodeId parse_unary();
  NodeId parse_signed();
  NodeId parse_power();
  bool check_not_chained(Operator op);
  // Operands.
  NodeId parse_primary();
  NodeId parse_atom();
  NodeId parse_name();
  NodeId parse_sequence();
  NodeId parse_attribute(NodeId object, std::uint32_t begin);
  NodeId parse_call(NodeId callee, std::uint32_t begin);
  NodeId parse_argument();
  NodeId parse_subscript(NodeId object, std::uint32_t begin);
  NodeId parse_subscript_item();
  bool parse_items(std::string_view closing, std::vector<NodeId>& items, bool& has_comma,
                   NodeId (Parser::*parse_item)());

  const Token& peek(std::size_t ahead = 0) const;
  bool is_at(std::string_view punctuation) const;
  bool accept(std::string_view punctuation);
  bool expect(std::string_view punctuation, const std::string& where);
  NodeId add(Node node);
  NodeId add_leaf(Kind kind);
  NodeId add_binary(Operator op, Span op_span, std::uint32_t begin, NodeId left, NodeId right);
  Span span_from(std::uint32_t begin) const { return {begin, last_end_}; }
  NodeId fail(Span span, std::string what, std::string remedy);
  NodeId refuse_token(const std::string& expected);

  std::vector<Token> tokens_;
  const Limits& limits_;
  Form form_;
  std::size_t at_ = 0;
  std::uint32_t last_end_ = 0;  // end of the last token
  std::size_t nesting_ = 0;
  std::vector<Node> nodes_;
  std::vector<std::size_t> depths_;  // of each node's subtree
  std::optional<Problem> problem_;
};

}  // namespace tt::expr

#include "src/expr/parser.h"

namespace tt::expr {

// An atom and what hangs on to it: .name, (arguments), [subscript].
NodeId Parser::parse_primary() {
  const std::uint32_t begin = peek().span.begin;
  NodeId node = parse_atom();
  while (!problem_) {
    if (accept(".")) {
      node = parse_attribute(node, begin);
    } else if (accept("(")) {
      node = parse_call(node, begin);
    } else if (accept("[")) {
      node = parse_subscript(node, begin);
    } else {
      return node;
    }
  }
  return kNoNode;
}

NodeId Parser::add_leaf(Kind kind) {
  const Token token = peek();
  last_end_ = tokens_[at_++].span.end;
  return add({kind,
              Operator::kNoOperator,
              token.span,
              token.span,
              token.integer,
              token.real,
              token.text,
              {}});
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
      if (!problem_ && peek().kind == TokenKind::kString) {
        return fail(peek().span, "two strings in a row", "write one string");
      }
      return node;
    }
    default:
      break;
  }
  if (is_at("(")) return parse_parenthesis();
  if (is_at("[")) return parse_list();
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

// Items with commas between them, a last comma too, up to the closing bracket, which is passed.
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

NodeId Parser::parse_parenthesis() {
  const std::uint32_t begin = peek().span.begin;
  accept("(");
  std::vector<NodeId> items;
  bool has_comma = false;
  if (!parse_items(")", items, has_comma, &Parser::parse_expression)) return kNoNode;
  if (items.size() == 1 && !has_comma) return items.front();
  return add({Kind::kTuple, Operator::kNoOperator, span_from(begin), {}, 0, 0, "", items});
}

NodeId Parser::parse_list() {
  const std::uint32_t begin = peek().span.begin;
  accept("[");
  std::vector<NodeId> items;
  bool has_comma = false;
  if (!parse_items("]", items, has_comma, &Parser::parse_expression)) return kNoNode;
  return add({Kind::kList, Operator::kNoOperator, span_from(begin), {}, 0, 0, "", items});
}

NodeId Parser::parse_attribute(NodeId object, std::uint32_t begin) {
  const Token name = peek();
  if (name.kind != TokenKind::kName || is_keyword(name.text)) {
    return refuse_token("a name after the dot");
  }
  last_end_ = tokens_[at_++].span.end;
  return add({Kind::kAttribute,
              Operator::kNoOperator,
              span_from(begin),
              name.span,
              0,
              0,
              name.text,
              {object}});
}

NodeId Parser::parse_argument() {
  const Token name = peek();
  const bool is_keyword_argument = name.kind == TokenKind::kName && !is_keyword(name.text) &&
                                   peek(1).kind == TokenKind::kPunctuation && peek(1).text == "=";
  if (!is_keyword_argument) return parse_expression();
  at_ += 2;
  const NodeId value = parse_expression();
  if (problem_) return kNoNode;
  return add({Kind::kKeyword,
              Operator::kNoOperator,
              span_from(name.span.begin),
              name.span,
              0,
              0,
              name.text,
              {value}});
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
  return add({Kind::kCall, Operator::kNoOperator, span_from(begin), {}, 0, 0, "", children});
}

NodeId Parser::parse_subscript(NodeId object, std::uint32_t begin) {
  const std::uint32_t bracket = last_end_ - 1;
  const std::uint32_t inside = peek().span.begin;
  std::vector<NodeId> items;
  bool has_comma = false;
  if (!parse_items("]", items, has_comma, &Parser::parse_subscript_item)) return kNoNode;
  if (items.empty()) {
    return fail(span_from(bracket), "there is no index between the brackets", "write [:] for all");
  }
  NodeId subscript = items.front();
  if (has_comma) {
    const Span span{inside, nodes_[items.back()].span.end};
    subscript = add({Kind::kTuple, Operator::kNoOperator, span, {}, 0, 0, "", items});
  }
  return add(
      {Kind::kIndex, Operator::kNoOperator, span_from(begin), {}, 0, 0, "", {object, subscript}});
}

// An expression, or start:stop:step with any of the three left out.
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
  return add({Kind::kSlice, Operator::kNoOperator, span_from(begin), {}, 0, 0, "", parts});
}

}  // namespace tt::expr

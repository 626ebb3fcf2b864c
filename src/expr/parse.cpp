#include "tensor_tracer/expr/parse.h"

#include <string>

#include "src/expr/parser.h"
#include "src/expr/text.h"
#include "tensor_tracer/expr/script.h"

namespace tt::expr {
namespace {

// A problem that prevents any reading: the text's length, or bytes that are not UTF-8.
std::optional<Problem> find_problem(std::string_view source, const Limits& limits,
                                    const std::string& noun) {
  if (source.size() > limits.max_source_bytes) {
    return Problem{{},
                   noun + " has " + std::to_string(source.size()) + " bytes, the limit is " +
                       std::to_string(limits.max_source_bytes),
                   "shorten it"};
  }
  const std::size_t bad = find_bad_utf8(source);
  if (bad == std::string_view::npos) return std::nullopt;
  const auto at = static_cast<std::uint32_t>(bad);
  return Problem{{at, at + 1}, noun + " is not valid UTF-8", "type it again"};
}

// `noun` names the text, for example "the expression".
base::Result<std::vector<Token>> read_tokens(std::string_view source, const Limits& limits,
                                             const std::string& noun) {
  if (const auto problem = find_problem(source, limits, noun))
    return to_error(source.substr(0, limits.max_source_bytes), *problem);
  Lexer lexer(source, limits);
  std::vector<Token> tokens = lexer.read_all();
  if (lexer.problem()) return to_error(source, *lexer.problem());
  return tokens;
}

}  // namespace

base::Result<Ast> parse(std::string_view source, const Limits& limits) {
  auto tokens = read_tokens(source, limits, "the expression");
  if (!tokens) return tokens.error();
  Parser parser(std::move(tokens).value(), limits);
  parser.skip_newlines();
  const NodeId root = parser.parse_expression();
  if (!parser.expect_end()) return to_error(source, *parser.problem());
  return Ast(std::string(source), parser.take_nodes(), root);
}

base::Result<Script> parse_script(std::string_view source, const Limits& limits) {
  auto tokens = read_tokens(source, limits, "the script");
  if (!tokens) return tokens.error();
  Parser parser(std::move(tokens).value(), limits, Form::kScript);
  std::vector<Statement> statements = parser.parse_statements();
  if (parser.problem()) return to_error(source, *parser.problem());
  const NodeId root = statements.back().value;
  return Script{Ast(std::string(source), parser.take_nodes(), root), std::move(statements)};
}

}  // namespace tt::expr

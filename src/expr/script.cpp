#include "tensor_tracer/expr/script.h"

#include "src/expr/parser.h"
#include "src/expr/text.h"

namespace tt::expr {

base::Result<Script> parse_script(std::string_view source, const Limits& limits) {
  if (auto error = check_text(source, limits, "the script")) return *std::move(error);
  Lexer lexer(source, limits);
  std::vector<Token> tokens = lexer.read_all();
  if (lexer.problem()) return to_error(source, *lexer.problem());
  Parser parser(std::move(tokens), limits, Form::kScript);
  std::vector<Statement> statements = parser.parse_statements();
  if (parser.problem()) return to_error(source, *parser.problem());
  const NodeId root = statements.back().value;
  return Script{Ast(std::string(source), parser.take_nodes(), root), std::move(statements)};
}

}  // namespace tt::expr

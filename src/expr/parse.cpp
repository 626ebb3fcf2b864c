#include "tensor_tracer/expr/parse.h"

#include <string>

#include "src/expr/parser.h"
#include "src/expr/text.h"

namespace tt::expr {

std::optional<base::Error> check_text(std::string_view source, const Limits& limits,
                                      const std::string& noun) {
  if (source.size() > limits.max_source_bytes) {
    const Problem problem{{},
                          noun + " has " + std::to_string(source.size()) + " bytes, the limit is " +
                              std::to_string(limits.max_source_bytes),
                          "shorten it"};
    return to_error(source.substr(0, limits.max_source_bytes), problem);
  }
  const std::size_t bad = find_bad_utf8(source);
  if (bad == std::string_view::npos) return std::nullopt;
  const auto at = static_cast<std::uint32_t>(bad);
  return to_error(source, {{at, at + 1}, noun + " is not valid UTF-8", "type it again"});
}
base::Result<Ast> parse(std::string_view source, const Limits& limits) {
  if (auto error = check_text(source, limits, "the expression")) return *std::move(error);
  Lexer lexer(source, limits);
  std::vector<Token> tokens = lexer.read_all();
  if (lexer.problem()) return to_error(source, *lexer.problem());
  Parser parser(std::move(tokens), limits);
  parser.skip_newlines();
  const NodeId root = parser.parse_expression();
  if (!parser.expect_end()) return to_error(source, *parser.problem());
  return Ast(std::string(source), parser.take_nodes(), root);
}

}  // namespace tt::expr

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor_tracer/expr/ast.h"
#include "tensor_tracer/expr/diagnostic.h"
#include "tensor_tracer/graph/program.h"

namespace tt::graph {

/// The state that all readers of one program share. It keeps the first problem; a function that
/// finds a problem returns immediately. Owner: the caller owns the constructor's arguments. Thread:
/// one.
class Reading {
 public:
  Reading(const expr::Ast& ast, const Model& model) : ast_(ast), model_(model) {}

  const expr::Ast& ast() const { return ast_; }
  const expr::Node& node(expr::NodeId id) const { return ast_.node(id); }
  const Model& model() const { return model_; }
  const std::optional<expr::Problem>& problem() const { return problem_; }

  /// Records a problem. Always returns false.
  bool fail(expr::Span span, std::string what, std::string remedy) {
    if (!problem_) problem_ = expr::Problem{span, std::move(what), std::move(remedy)};
    return false;
  }

  bool is_name(expr::NodeId id, std::string_view name) const {
    return node(id).kind == expr::Kind::kName && node(id).text == name;
  }
  /// The name of the called function, if the call uses only a name; else empty.
  std::string called(expr::NodeId id) const;
  /// The value of a literal with at most one sign.
  std::optional<std::int64_t> integer(expr::NodeId id) const;
  std::optional<double> number(expr::NodeId id) const;
  /// The line number, from 1.
  std::size_t line_of(expr::NodeId id) const;

 private:
  const expr::Ast& ast_;
  const Model& model_;
  std::optional<expr::Problem> problem_;
};

/// `text` in double quotes.
std::string in_quotes(std::string_view text);

/// The arguments of one of the words that are called with parentheses.
struct Signature {
  std::string usage;  // for the error's remedy
  std::vector<std::string_view> arguments;
  std::size_t positional = 1;  // number of arguments that may be given without a name
  std::size_t required = 1;
};

/// The arguments of the call `call`, in the order of the signature; kNoNode for an argument that is
/// not given. Empty after a problem.
std::vector<expr::NodeId> read_arguments(Reading& reading, expr::NodeId call,
                                         const Signature& signature);

/// Reads a string that is not empty and has at most `max_bytes`. False after a problem.
bool read_string(Reading& reading, expr::NodeId id, std::string_view what, std::size_t max_bytes,
                 std::string& text);

}  // namespace tt::graph

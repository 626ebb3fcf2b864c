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

/// What everything that reads one program shares. The first problem is kept; who meets one returns
/// at once. Owner: the caller of what the constructor is given. Thread: one.
class Reading {
 public:
  Reading(const expr::Ast& ast, const Model& model) : ast_(ast), model_(model) {}

  const expr::Ast& ast() const { return ast_; }
  const expr::Node& node(expr::NodeId id) const { return ast_.node(id); }
  const Model& model() const { return model_; }
  const std::optional<expr::Problem>& problem() const { return problem_; }

  /// Always false.
  bool fail(expr::Span span, std::string what, std::string remedy) {
    if (!problem_) problem_ = expr::Problem{span, std::move(what), std::move(remedy)};
    return false;
  }

  bool is_name(expr::NodeId id, std::string_view name) const {
    return node(id).kind == expr::Kind::kName && node(id).text == name;
  }
  /// The name of what is called, if it is called by a name alone; else empty.
  std::string called(expr::NodeId id) const;
  /// A literal with at most one sign.
  std::optional<std::int64_t> integer(expr::NodeId id) const;
  std::optional<double> number(expr::NodeId id) const;
  /// Counts from 1.
  std::size_t line_of(expr::NodeId id) const;

 private:
  const expr::Ast& ast_;
  const Model& model_;
  std::optional<expr::Problem> problem_;
};

/// `text` in double quotes.
std::string in_quotes(std::string_view text);

/// How one of the words with parentheses is called.
struct Signature {
  std::string_view usage;  // for the remedy
  std::vector<std::string_view> arguments;
  std::size_t positional = 1;  // so many arguments may come without their name
  std::size_t required = 1;
};

/// The arguments of the call `call` in the order of the signature, kNoNode where one is not given;
/// empty after a problem.
std::vector<expr::NodeId> read_arguments(Reading& reading, expr::NodeId call,
                                         const Signature& signature);

/// A string that is not empty and has at most `max_bytes`; false after a problem.
bool read_string(Reading& reading, expr::NodeId id, std::string_view what, std::size_t max_bytes,
                 std::string& text);

}  // namespace tt::graph

#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/eval/limits.h"
#include "tensor_tracer/expr/ast.h"

namespace tt::eval {

/// A tensor that an expression may name.
struct Input {
  std::string name;
  std::vector<std::int64_t> shape;
  at::ScalarType dtype = at::kFloat;
  /// Promotes as a Python number does, not as a tensor: a float32 by it is a float32. Without dims.
  bool is_number = false;
};

/// The memory that a result keeps alive.
struct Held {
  std::int64_t bytes = 0;            // made by the program
  std::optional<std::size_t> input;  // whose memory the result may show besides
};

/// What Program::check() finds out.
struct ProgramFacts {
  std::vector<std::int64_t> shape;    // of the result
  at::ScalarType dtype = at::kFloat;  // of the result
  bool is_number = false;             // the result, as Input::is_number
  /// Every operator acts on each element alone, with broadcasting from the last dimension, and
  /// rounds exactly, so that no bit depends on which part of its inputs it is given.
  bool is_exact = false;
  /// Estimated element operations of one run: n for an element-wise operator or a reduction of n
  /// elements, n log2 n for what sorts, the multiply-adds of a matrix product, nothing for a view.
  double cost = 0;
  /// The most bytes that one run holds at one time, the inputs left out.
  std::int64_t live_bytes = 0;
  Held held = {};
};

/// "[2, 3]".
std::string describe_shape(at::IntArrayRef shape);

/// A subtree that stands for a value known to the caller: an input by its index, or a whole
/// number.
using Substitution = std::variant<std::size_t, std::int64_t>;
using Substitutions = std::map<expr::NodeId, Substitution>;

struct Plan;

/// A checked expression, ready to run: a list of calls of pure ATen operators.
///
/// Everything but the numbers inside tensors is settled by check(): operators, overloads, shapes,
/// dtypes, cost. So a Program is for inputs of exactly the shapes and dtypes it was checked for.
/// Owner: of itself; copies share one immutable plan and cost nothing. Thread: any.
class Program {
 public:
  /// Parses `text` (docs/expressions.md) and follows it on meta tensors, which hold no data. The
  /// few operators for which libtorch knows no shapes without data run on zeros, once their cost is
  /// admitted. Whatever is wrong with the text or over a limit is an Error as in expr::to_error().
  /// REQUIRES: the names of the inputs differ.
  static base::Result<Program> check(std::string_view text, std::vector<Input> inputs,
                                     const Limits& limits = {});

  /// The same of the expression under `root` in a larger text, whose errors name the place in all
  /// of it. What `known` names is not looked into; a number counts as a tensor without dimensions.
  static base::Result<Program> check(const expr::Ast& ast, expr::NodeId root,
                                     std::vector<Input> inputs, const Substitutions& known,
                                     const Limits& limits = {});

  const ProgramFacts& facts() const;
  /// What fold() has computed and the program keeps.
  std::size_t constant_bytes() const;
  const std::string& text() const;

  /// The value for these inputs, in the order of check()'s, all on one device. Its bits do not
  /// depend on how many threads libtorch has. It may be an input itself or a view of one, and never
  /// requires a gradient; no input is changed. Inputs of other shapes or dtypes than checked are an
  /// Error with code "invalid_argument"; a failure inside libtorch is an Error with code
  /// "expression_failed", never an exception.
  base::Result<at::Tensor> run(const std::vector<at::Tensor>& inputs) const;

  /// The same with a gradient where an input has one, under the caller's grad mode.
  base::Result<at::Tensor> run_with_gradient(const std::vector<at::Tensor>& inputs) const;

  /// The same program with what depends on nothing but these inputs computed here, once. `known`:
  /// by input, undefined where it is not known; run() is still given all of them.
  Program fold(const std::vector<at::Tensor>& known) const;

  /// The operator that would have to pass a gradient on and cannot, if there is one: // and
  /// number % tensor. `has_gradient`: by input.
  std::optional<expr::Span> find_gradient_stop(const std::vector<bool>& has_gradient) const;

  /// For an input of shape [lines, tiles, width] or [rows, lines, tiles, width]: true if the result
  /// has the same dims before the last, and its part at one tile depends on nothing of that input
  /// but the `width` numbers of that tile, nor on how many rows, lines and tiles there are. Such a
  /// program may run on any subset of the tiles. Conservative: true is proven from the structure,
  /// false may mean "not seen". REQUIRES: input < number of inputs.
  bool acts_on_last_dim_only(std::size_t input) const;

 private:
  explicit Program(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}

  std::shared_ptr<const Plan> plan_;  // shared: immutable, and copies are cheap
};

}  // namespace tt::eval

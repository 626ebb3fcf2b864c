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
  /// The input is promoted like a Python number, not like a tensor: a float32 tensor times this
  /// input is float32. It has no dims.
  bool is_number = false;
};

/// The memory that a result keeps alive.
struct Held {
  std::int64_t bytes = 0;            // that the program allocates
  std::optional<std::size_t> input;  // whose memory the result may share
};

/// The facts that Program::check() computes.
struct ProgramFacts {
  std::vector<std::int64_t> shape;    // of the result
  at::ScalarType dtype = at::kFloat;  // of the result
  bool is_number = false;             // of the result, as Input::is_number
  /// Every operator is elementwise, with broadcasting from the last dimension, and correctly
  /// rounded. So the bits do not depend on which part of the inputs the program gets.
  bool is_exact = false;
  /// Estimated element operations of one run: n for an elementwise operator or a reduction of n
  /// elements, n log2 n for a sort, the multiply-adds of a matrix product, 0 for a view.
  double cost = 0;
  /// The most bytes that one run holds at one time, without the inputs.
  std::int64_t live_bytes = 0;
  Held held = {};
};

/// "[2, 3]".
std::string describe_shape(at::IntArrayRef shape);

/// Replaces a subtree by a value that the caller knows: an input by its index, or a whole number.
using Substitution = std::variant<std::size_t, std::int64_t>;
using Substitutions = std::map<expr::NodeId, Substitution>;

struct Plan;

/// A checked expression, ready to run: a list of calls of pure ATen operators.
///
/// check() determines operators, overloads, shapes, dtypes and cost; only the numbers inside
/// tensors stay unknown. So a Program accepts only inputs with exactly the checked shapes and
/// dtypes. Copies share one immutable plan and are cheap. Thread: any.
class Program {
 public:
  /// Parses `text` (docs/expressions.md) and runs it on meta tensors, which hold no data. For a few
  /// operators libtorch cannot compute shapes without data; these run on zeros, after their cost
  /// was checked. A mistake in the text or a value over a limit is an Error as in expr::to_error().
  /// REQUIRES: the names of the inputs differ.
  static base::Result<Program> check(std::string_view text, std::vector<Input> inputs,
                                     const Limits& limits = {});

  /// The same for the expression under `root` in a larger text. Errors give the position in the
  /// larger text. Subtrees in `known` are not checked; a number counts as a tensor without
  /// dimensions.
  static base::Result<Program> check(const expr::Ast& ast, expr::NodeId root,
                                     std::vector<Input> inputs, const Substitutions& known,
                                     const Limits& limits = {});

  const ProgramFacts& facts() const;
  /// Bytes of the constants that the program keeps, with the results of fold().
  std::size_t constant_bytes() const;
  const std::string& text() const;

  /// Computes the value for these inputs. They are in the order of check() and all on one device.
  /// The bits do not depend on the number of libtorch's threads. The result may be an input or a
  /// view of an input, and never requires a gradient; no input is changed. Inputs with other shapes
  /// or dtypes than checked give an Error with code "invalid_argument". A failure inside libtorch
  /// gives an Error with code "expression_failed", never an exception.
  base::Result<at::Tensor> run(const std::vector<at::Tensor>& inputs) const;

  /// The same, with gradients for inputs that have one, under the caller's grad mode.
  base::Result<at::Tensor> run_with_gradient(const std::vector<at::Tensor>& inputs) const;

  /// Constant folding: returns the same program, in which the values that depend only on known
  /// inputs are computed now, once. `known`: by input, undefined if not known. run() still takes
  /// all inputs.
  Program fold(const std::vector<at::Tensor>& known) const;

  /// The first operator that must propagate a gradient and cannot (// and number % tensor), or
  /// nullopt. `has_gradient`: by input.
  std::optional<expr::Span> find_gradient_stop(const std::vector<bool>& has_gradient) const;

  /// For an input of shape [lines, tiles, width] or [rows, lines, tiles, width]: true if the result
  /// has the same dims before the last, and the result of one tile depends only on the `width`
  /// numbers of that tile, not on the number of rows, lines or tiles. A program with this property
  /// may run on any subset of the tiles. Conservative: true is proven from the structure; false may
  /// mean "not proven". REQUIRES: input < number of inputs.
  bool acts_on_last_dim_only(std::size_t input) const;

 private:
  explicit Program(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}

  std::shared_ptr<const Plan> plan_;  // shared: immutable, and copies are cheap
};

}  // namespace tt::eval

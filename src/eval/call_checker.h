#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/eval/binder.h"
#include "src/eval/recorder.h"
#include "src/eval/value.h"
#include "tensor_tracer/expr/diagnostic.h"

namespace tt::eval {

/// Checks calls of operators and builtins, and adds the calls of a run to the Recorder. Keeps the
/// first problem. The recorder must outlive the checker. Thread: one.
class CallChecker {
 public:
  explicit CallChecker(Recorder& recorder) : recorder_(recorder) {}

  Recorder& recorder() const { return recorder_; }
  const std::optional<expr::Problem>& problem() const { return problem_; }
  /// Returns None. Keeps the problem if it is the first.
  Value fail(expr::Span span, std::string what, std::string remedy = "");

  Value call(const Call& call);
  /// A call that comes from syntax: an operator sign, an item of an index.
  Value apply(const std::string& name, expr::Span span, std::vector<Value> arguments);
  Value size_of(const TensorValue& tensor, std::int64_t dim, expr::Span span);
  Value shape_of(const TensorValue& tensor);

 private:
  Value call_operator(const Call& call);
  Value call_overload(const Call& call, const OperatorRow& row, const c10::OperatorHandle& op,
                      std::vector<PlanArgument> arguments);
  Value refuse_call(const Call& call, const Mismatch& mismatch);
  Value call_builtin(const Call& call);
  Value call_size(const Call& call, const TensorValue& tensor, std::size_t first_argument);
  Value call_tensor(const Call& call);

  Recorder& recorder_;
  std::optional<expr::Problem> problem_;
};

}  // namespace tt::eval

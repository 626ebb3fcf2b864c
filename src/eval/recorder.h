#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/eval/operator_table.h"
#include "src/eval/plan.h"
#include "src/eval/value.h"
#include "tensor_tracer/eval/limits.h"

namespace tt::eval {

/// Writes a Plan down, call by call, and knows shape, dtype, cost and reach of every value so far
/// from running the calls on meta tensors. Thread: one.
class Recorder {
 public:
  /// The inputs are valid: see check_inputs().
  Recorder(std::string text, std::vector<Input> inputs, const Limits& limits);

  TensorValue input(std::size_t index) const;
  const std::vector<Input>& inputs() const { return plan_.inputs; }
  TensorValue constant(const at::Tensor& tensor);
  /// False, and problem(), if one of them is over a limit.
  bool check_results(const std::vector<at::Tensor>& results);

  /// The results of one call; nothing if it cannot be or costs too much, and then problem() says
  /// why. `arguments` match the schema.
  std::optional<std::vector<TensorValue>> call(const OperatorRow& row,
                                               const c10::OperatorHandle& op,
                                               std::vector<PlanArgument> arguments,
                                               expr::Span span);
  const std::string& problem() const { return problem_; }

  /// The text has used the size of dimension `dim` of `value` as a number; kAllDims: of all.
  static constexpr std::int64_t kAllDims = INT64_MIN;
  void note_size_read(const TensorValue& value, std::int64_t dim);

  /// The plan that gives `result`, or nothing and problem() if that is over a limit.
  std::optional<Plan> finish(const TensorValue& result);

 private:
  bool fits(double number, double limit, const std::string& what, const std::string& of);
  bool charge(double cost);
  bool check_parts(const OperatorRow& row, const c10::FunctionSchema& schema,
                   const std::vector<PlanArgument>& arguments);
  std::optional<std::vector<at::Tensor>> run_without_data(
      const OperatorRow& row, const c10::OperatorHandle& op,
      const std::vector<PlanArgument>& arguments);
  std::optional<std::vector<at::Tensor>> try_on_zeros(const OperatorRow& row,
                                                      const c10::OperatorHandle& op,
                                                      const std::vector<PlanArgument>& arguments);
  bool check_selected(const c10::FunctionSchema& schema,
                      const std::vector<PlanArgument>& arguments);
  bool check_division(const c10::FunctionSchema& schema, const std::vector<PlanArgument>& arguments,
                      const std::vector<at::Tensor>& results);
  Reaches combine_reaches(const OperatorRow& row, const c10::FunctionSchema& schema,
                          const std::vector<PlanArgument>& arguments) const;
  std::uint32_t add_slot(at::Tensor meta, Reaches reaches);
  void mark_dead_slots(std::uint32_t result);
  bool check_live_bytes(std::uint32_t result);

  Limits limits_;
  double max_elements_;  // of any value on the way
  Plan plan_;
  std::vector<at::Tensor> metas_;  // by slot
  std::vector<Reaches> reaches_;   // by slot
  std::vector<bool> is_view_;      // by slot: holds no memory
  // By slot: the first of those that share one memory with it, or may.
  std::vector<std::uint32_t> owners_;
  std::vector<std::int64_t> scratch_;  // by step: bytes that it makes for itself
  std::vector<bool> size_read_;        // by input: its lines or tiles were counted
  std::string problem_;
};

}  // namespace tt::eval

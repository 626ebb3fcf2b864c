#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/eval/operator_table.h"
#include "src/eval/plan.h"
#include "src/eval/value.h"
#include "tensor_tracer/eval/limits.h"

namespace tt::eval {

/// Records a Plan, call by call. It runs the calls on meta tensors, and so knows shape, dtype, cost
/// and reach of every value so far. Thread: one.
class Recorder {
 public:
  /// The inputs are valid: see check_inputs().
  Recorder(std::string text, std::vector<Input> inputs, const Limits& limits);

  TensorValue input(std::size_t index) const;
  const std::vector<Input>& inputs() const { return plan_.inputs; }
  TensorValue constant(const at::Tensor& tensor);
  /// Returns false and sets problem() if a result is over a limit.
  bool check_results(const std::vector<at::Tensor>& results);

  /// The results of one call. If the call fails or costs too much: nullopt, and problem() has the
  /// reason. `arguments` match the schema.
  std::optional<std::vector<TensorValue>> call(const OperatorRow& row,
                                               const c10::OperatorHandle& op,
                                               std::vector<PlanArgument> arguments,
                                               expr::Span span);
  const std::string& problem() const { return problem_; }

  /// Notes that the text used the size of dimension `dim` of `value` as a number; kAllDims: of all
  /// dimensions.
  static constexpr std::int64_t kAllDims = INT64_MIN;
  void note_size_read(const TensorValue& value, std::int64_t dim);

  /// The plan that computes `result`. If it is over a limit: nullopt, and problem() has the reason.
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
  double max_elements_;  // of any intermediate value
  Plan plan_;
  std::vector<at::Tensor> metas_;  // by slot
  std::vector<Reaches> reaches_;   // by slot
  std::vector<bool> is_view_;      // by slot: allocates no memory
  // By slot: the first slot that shares, or may share, its memory.
  std::vector<std::uint32_t> owners_;
  std::vector<std::int64_t> scratch_;  // by step: bytes of its temporaries
  std::vector<bool> size_read_;        // by input: the text used its number of lines or tiles
  std::string problem_;
};

}  // namespace tt::eval

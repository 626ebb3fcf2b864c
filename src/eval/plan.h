#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "src/eval/reach.h"
#include "tensor_tracer/eval/program.h"
#include "tensor_tracer/expr/ast.h"

namespace tt::eval {

/// The index of a tensor during a run.
struct Slot {
  std::uint32_t index = 0;
};
using SlotList = std::vector<Slot>;
/// Stands for the device of the inputs.
struct InputDevice {};

/// An argument of a call: a constant, a slot, or the device.
using PlanArgument = std::variant<c10::IValue, Slot, SlotList, InputDevice>;

/// One call; its results go to slots [first_result, first_result + results).
struct Step {
  c10::OperatorHandle op;
  std::vector<PlanArgument> arguments;
  std::uint32_t first_result = 0;
  std::uint32_t results = 0;
  std::vector<std::uint32_t> dead = {};  // slots that no later step reads
  expr::Span span;                       // of the operator in the text
  double cost = 0;                       // of ProgramFacts::cost
  bool gives_number = false;             // as Input::is_number
  bool passes_gradient = true;           // the results have a gradient if an argument has one
};

/// The steps of a Program. Inputs are in the first slots, constants in the next slots.
struct Plan : ProgramFacts {
  std::string text;
  std::vector<Input> inputs;
  std::vector<std::pair<std::uint32_t, at::Tensor>> constants;
  std::vector<Step> steps;
  std::uint32_t slots = 0;
  std::uint32_t result = 0;  // slot
  Reaches reaches;
};

/// Marks a tensor without dims so that it promotes like a Python number: float32 times a number is
/// float32.
void mark_number(const at::Tensor& tensor);
bool is_number(const at::Tensor& tensor);

/// Calls the step's operator with the tensors of these slots. Throws the exceptions of ATen.
std::vector<at::Tensor> call(const c10::OperatorHandle& op,
                             const std::vector<PlanArgument>& arguments,
                             const std::vector<at::Tensor>& slots, c10::Device device);

/// The first sentence of an exception's text, without paths, positions in code and the stack trace.
std::string first_sentence(const std::exception& exception);

}  // namespace tt::eval

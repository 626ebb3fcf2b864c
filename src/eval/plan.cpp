#include "src/eval/plan.h"

#include <ATen/ATen.h>
#include <ATen/core/stack.h>

#include <algorithm>

#include "src/eval/probe.h"

namespace tt::eval {
namespace {

// A call whose arguments are all numbers computes in float64, as in Python; libtorch would use
// float32.
bool are_numbers(const std::vector<PlanArgument>& arguments, const std::vector<at::Tensor>& slots) {
  return std::ranges::all_of(
      slots_of(arguments), [&](std::uint32_t slot) { return is_number(slots[slot]); });
}

c10::IValue resolve(const PlanArgument& argument, const std::vector<at::Tensor>& slots,
                    c10::Device device, bool numbers_as_tensors) {
  const auto tensor = [&](const Slot& slot) {
    return numbers_as_tensors ? slots[slot.index].clone() : slots[slot.index];
  };
  if (const auto* value = std::get_if<c10::IValue>(&argument)) return *value;
  if (const auto* slot = std::get_if<Slot>(&argument)) return tensor(*slot);
  if (std::holds_alternative<InputDevice>(argument)) return device;
  c10::List<at::Tensor> list;
  for (const Slot& slot : std::get<SlotList>(argument)) list.push_back(tensor(slot));
  return list;
}

// Cuts texts such as "Could not read /a/b.cpp" and "x (at file.cpp:12)", which do not help a
// viewer.
void cut_at(std::string& text, std::string_view mark) {
  const std::size_t at = text.find(mark);
  if (at != std::string::npos) text.resize(at);
}

}  // namespace

void mark_number(const at::Tensor& tensor) {
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
}

bool is_number(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->is_wrapped_number();
}

std::vector<at::Tensor> call(const c10::OperatorHandle& op,
                             const std::vector<PlanArgument>& arguments,
                             const std::vector<at::Tensor>& slots, c10::Device device) {
  torch::jit::Stack stack;
  stack.reserve(arguments.size());
  const bool as_tensors = are_numbers(arguments, slots);
  for (const PlanArgument& argument : arguments)
    stack.push_back(resolve(argument, slots, device, as_tensors));
  op.callBoxed(stack);
  std::vector<at::Tensor> results;
  for (const c10::IValue& value : stack) {
    if (value.isTensor())
      results.push_back(value.toTensor());
    else
      for (const at::Tensor& tensor : value.toTensorVector()) results.push_back(tensor);
  }
  return results;
}

std::string first_sentence(const std::exception& exception) {
  const auto* error = dynamic_cast<const c10::Error*>(&exception);
  std::string text = error != nullptr ? error->what_without_backtrace() : exception.what();
  cut_at(text, "\n");
  cut_at(text, ". ");
  cut_at(text, "Exception raised from");
  cut_at(text, " (at /");
  cut_at(text, " at /");
  cut_at(text, "\"/");
  while (!text.empty() && (text.back() == '.' || text.back() == ' ')) text.pop_back();
  return text.empty() ? "libtorch refused the call" : text;
}

}  // namespace tt::eval

#include "src/eval/refusals.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <array>

#include "tensor_tracer/base/nearest.h"

namespace tt::eval {
namespace {

struct Refusal {
  std::string_view names;  // with blanks between them
  std::string_view what;
  std::string_view remedy;
};

constexpr std::string_view kDataShape = "the shape of its result depends on the data";
constexpr std::string_view kPure = "an expression only calculates with its inputs";
constexpr std::string_view kNoFunctions = "there are no Python functions";

constexpr std::array kRefusals = {
    Refusal{"nonzero argwhere masked_select", kDataShape,
            "write where(mask, data, 0), or count with mask.sum()"},
    Refusal{"unique unique_consecutive", kDataShape, "write sort(...)"},
    Refusal{"bincount", kDataShape, "write (data == value).sum()"},
    Refusal{"item tolist numpy data_ptr", "it takes the numbers out of the tensor",
            "tensors stay tensors here: leave it out"},
    Refusal{"rand randn randint randperm rand_like randn_like bernoulli multinomial normal dropout "
            "manual_seed",
            "it is random", "an expression gives the same value every time"},
    Refusal{"load save open print eval exec compile getattr globals from_file register_hook",
            "it reaches outside the expression", kPure},
    Refusal{"backward", "it changes gradients", kPure},
    Refusal{"grad", "gradients have separate trace points", "watch the point's gradient"},
    Refusal{"requires_grad", "gradients are not followed here", kPure},
    Refusal{"cuda cpu", "it moves the tensor", "leave it out; everything runs where the data is"},
    Refusal{"len", kNoFunctions, "write data.size(0)"},
    Refusal{"range", kNoFunctions, "write arange(...)"},
};

bool is_aten_operator(std::string_view name) {
  const auto all = c10::Dispatcher::singleton().getAllOpNames();
  return std::ranges::any_of(all, [name](const c10::OperatorName& op) {
    return op.name.starts_with("aten::") && std::string_view(op.name).substr(6) == name;
  });
}

}  // namespace

expr::Problem refuse_name(std::string_view name, expr::Span span,
                          const std::vector<std::string>& known) {
  const std::string quoted = "\"" + std::string(name) + "\"";
  const auto found = std::ranges::find_if(
      kRefusals, [name](const Refusal& row) { return base::has_word(row.names, name); });
  if (found != kRefusals.end()) {
    return {span, quoted + " is not admitted: " + std::string(found->what),
            std::string(found->remedy)};
  }
  if (name.ends_with("_")) {
    return {span, quoted + " is not admitted: it works in place",
            "call it without the last underscore"};
  }
  if (is_aten_operator(name)) {
    return {span, quoted + " is an operator of PyTorch but is not admitted here",
            "docs/expressions.md lists what is"};
  }
  return {span, "there is no " + quoted + expr::suggestion(name, known),
          "docs/expressions.md lists the operators"};
}

}  // namespace tt::eval

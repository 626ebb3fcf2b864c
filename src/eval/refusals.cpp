#include "src/eval/refusals.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <array>

namespace tt::eval {
namespace {

struct Refusal {
  std::string_view name;
  std::string_view what;
  std::string_view remedy;
};

constexpr std::string_view kDataShape = "the shape of its result depends on the data";
constexpr std::string_view kUseWhere = "write where(mask, data, 0), or count with mask.sum()";
constexpr std::string_view kLeaves = "it takes the numbers out of the tensor";
constexpr std::string_view kStays = "tensors stay tensors here: leave it out";
constexpr std::string_view kRandom = "it is random";
constexpr std::string_view kRepeatable = "an expression gives the same value every time";
constexpr std::string_view kOutside = "it reaches outside the expression";
constexpr std::string_view kPure = "an expression only calculates with its inputs";

constexpr std::array kRefusals = {
    Refusal{"nonzero", kDataShape, kUseWhere},
    Refusal{"argwhere", kDataShape, kUseWhere},
    Refusal{"masked_select", kDataShape, kUseWhere},
    Refusal{"unique", kDataShape, "write sort(...)"},
    Refusal{"unique_consecutive", kDataShape, "write sort(...)"},
    Refusal{"bincount", kDataShape, "write (data == value).sum()"},
    Refusal{"item", kLeaves, kStays},
    Refusal{"tolist", kLeaves, kStays},
    Refusal{"numpy", kLeaves, kStays},
    Refusal{"data_ptr", kLeaves, kStays},
    Refusal{"rand", kRandom, kRepeatable},
    Refusal{"randn", kRandom, kRepeatable},
    Refusal{"randint", kRandom, kRepeatable},
    Refusal{"randperm", kRandom, kRepeatable},
    Refusal{"rand_like", kRandom, kRepeatable},
    Refusal{"randn_like", kRandom, kRepeatable},
    Refusal{"bernoulli", kRandom, kRepeatable},
    Refusal{"multinomial", kRandom, kRepeatable},
    Refusal{"normal", kRandom, kRepeatable},
    Refusal{"dropout", kRandom, kRepeatable},
    Refusal{"manual_seed", kRandom, kRepeatable},
    Refusal{"load", kOutside, kPure},
    Refusal{"save", kOutside, kPure},
    Refusal{"open", kOutside, kPure},
    Refusal{"print", kOutside, kPure},
    Refusal{"eval", kOutside, kPure},
    Refusal{"exec", kOutside, kPure},
    Refusal{"compile", kOutside, kPure},
    Refusal{"getattr", kOutside, kPure},
    Refusal{"globals", kOutside, kPure},
    Refusal{"from_file", kOutside, kPure},
    Refusal{"backward", "it changes gradients", kPure},
    Refusal{"grad", "gradients have trace points of their own", "watch the point's gradient"},
    Refusal{"requires_grad", "gradients are not followed here", kPure},
    Refusal{"register_hook", kOutside, kPure},
    Refusal{"cuda", "it moves the tensor", "leave it out; everything runs where the data is"},
    Refusal{"cpu", "it moves the tensor", "leave it out; everything runs where the data is"},
    Refusal{"len", "there are no Python functions", "write data.size(0)"},
    Refusal{"range", "there are no Python functions", "write arange(...)"},
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
  const auto found = std::ranges::find(kRefusals, name, &Refusal::name);
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

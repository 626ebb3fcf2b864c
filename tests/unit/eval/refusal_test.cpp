#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensor_tracer/eval/program.h"

namespace tt::eval {
namespace {

using testing::HasSubstr;
using testing::Not;

base::Error refusal(const char* text) {
  const auto program = Program::check(text, {{"data", {2, 3, 4}, at::kDouble}});
  return program.ok() ? base::Error{} : program.error();
}

// Ways out of the language and into Python, the machine or the training state.
constexpr const char* kEscapes[] = {
    "data.__class__.__mro__",
    "data.__class__.__base__.__subclasses__()",
    "__import__(\"os\")",
    "__import__('os').system('true')",
    "__builtins__",
    "open(\"x\")",
    "eval(\"1\")",
    "exec('1')",
    "compile('1', '', 'eval')",
    "getattr(data, 'numpy')",
    "globals()",
    "print(data)",
    "data.numpy()",
    "data.tolist()",
    "data.item()",
    "data.data_ptr()",
    "data.storage()",
    "data.untyped_storage()",
    "data.data",
    "data.grad",
    "data.grad_fn",
    "data.backward()",
    "data.requires_grad_()",
    "data.register_hook(abs)",
    "data.retain_grad()",
    "data.add_(1)",
    "data.zero_()",
    "data.copy_(data)",
    "data.set_(data)",
    "data.resize_(1)",
    "torch.relu_(data)",
    "torch.add(data, 1, out=data)",
    "torch.load(\"x\")",
    "torch.save(data, 'x')",
    "torch.from_file('x')",
    "torch.ops.aten.add(data, 1)",
    "torch.jit.load('x')",
    "torch.hub.load('x')",
    "torch.cuda.synchronize()",
    "torch.manual_seed(1)",
    "torch.set_num_threads(1)",
    "torch.set_default_dtype(torch.float16)",
    "torch.rand(2)",
    "torch.randn_like(data)",
    "torch.bernoulli(data)",
    "torch.dropout(data, 0.5, True)",
    "torch.multinomial(data, 1)",
    "torch.nonzero(data)",
    "torch.unique(data)",
    "torch.masked_select(data, data > 0)",
    "data[data > 0]",
    "data[data.long()]",
    "data[True]",
    "data.where(data > 0)",
    "torch.where(data > 0)",
    "torch.repeat_interleave(data, tensor([1, 2]), dim=0)",
    "data.cuda()",
    "data.to('cuda')",
    "data.to(device='cuda')",
    "torch.zeros(2, device='cuda')",
    "torch.zeros(2, requires_grad=True)",
    "torch.zeros(2, generator=None)",
    "torch._C",
    "torch._assert_async(data)",
    "data._version",
    "torch.empty(3)",
    "torch.empty_like(data)",
    "data.new_empty(3)",
    "data.as_strided((9, 9), (1, 1))",
    "torch.as_strided(data, (100000,), (1,))",
    "data.view(torch.int64)",
    "slice(data, 0)",
    "vars()",
    "os",
    "self",
};

TEST(Escape, NoneOfThemWorks) {
  for (const char* text : kEscapes) {
    const base::Error error = refusal(text);
    EXPECT_EQ(error.code, "invalid_expression") << text;
    EXPECT_THAT(error.message, HasSubstr("^")) << text;
    EXPECT_THAT(error.message, Not(HasSubstr(".cpp"))) << text;
  }
}

struct Case {
  const char* text;
  const char* where;
  const char* message;
  const char* remedy;
};

constexpr Case kCases[] = {
    {"dta.mean()", "column 1", "there is no \"dta\", did you mean \"data\"?",
     "docs/expressions.md"},
    {"data.quantil(0.5)", "column 6", "did you mean \"quantile\"?", ""},
    {"torch.flaot32", "column 7", "did you mean \"float32\"?", ""},
    {"true", "column 1", "did you mean \"True\"?", ""},
    {"data.svd()", "column 6", "an operator of PyTorch but is not admitted", "docs/expressions.md"},
    {"data.add_(1)", "column 6", "it works in place", "without the last underscore"},
    {"data.nonzero()", "column 6", "depends on the data", "where(mask, data, 0)"},
    {"data[data > 0]", "column 6", "an index by a tensor", "where(mask, data, 0)"},
    {"torch.rand(2)", "column 7", "it is random", "same value"},
    {"data.item()", "column 6", "takes the numbers out", ""},
    {"torch.load('x')", "column 7", "reaches outside", "only calculates"},
    {"data.mean(dims=-1)", "column 11", "mean has no argument \"dims\", did you mean \"dim\"?",
     "mean(input, dim, keepdim=False, *, dtype=None)"},
    {"data.mean('x')", "column 11", "is an integer or a list of them, not the string \"x\"", ""},
    {"data.mean(-1, 1)", "column 15", "is True or False, not the integer 1", ""},
    {"data.mean(-1, dim=0)", "column 15", "given twice", ""},
    {"data.topk()", "column 6", "topk needs the argument \"k\"", "topk(input, k, dim=-1"},
    {"data.abs(1)", "column 10", "no more than 0 arguments", "abs(input)"},
    {"data.mean(dim=3)", "column 6", "mean: Dimension out of range", ""},
    {"data[5]", "column 6", "index 5 out of range", ""},
    {"~data", "column 1", "not implemented for 'Double'", ""},
    {"(data > 0) @ (data > 0).mT", "column 12", "not implemented for 'Bool'", ".double()"},
    {"data[0, 0, 0, 0]", "column 6", "too many indices for a tensor of shape [2, 3, 4]", ""},
    {"data[..., ...]", "column 11", "one ... at most", ""},
    {"torch.div(data.long(), -1, rounding_mode='trunc')", "column 7",
     "integers are not divided with rounding_mode=\"trunc\"", ""},
    {"data.long().div(data.int(), rounding_mode='trunc')", "column 13", "write \"floor\"", ""},
    {"data['a']", "column 6", "the string \"a\" is no index", ""},
    {"data[::-1]", "column 6", "the step of a slice is positive", "flip"},
    {"data[0.5:]", "column 6", "the parts of a slice are integers", ""},
    {"data[[7]]", "column 6", "index 7 is out of bounds for dimension 0 with size 2", ""},
    {"data + data[..., :3]", "column 6", "The size of tensor a (4) must match", ""},
    {"data @ data", "column 6", "", ""},
    {"data + 'x'", "column 6", "\"+\" does not work on a tensor of shape [2, 3, 4] and the string",
     ""},
    {"maximum(data, 0)", "column 15", "is a tensor, not the integer 0", "maximum(input, other)"},
    {"data.max(dim=-1)", "column 1", "gives a tuple or list of values, indices, not a tensor",
     ".values"},
    {"data.max(dim=-1).value", "column 18", "did you mean \"values\"?", ""},
    {"data.chunk(2)", "column 1", "a tuple or list of 2 values", "[0]"},
    {"data.shape", "column 1", "a tuple or list of 3 values", ""},
    {"data.ndim", "column 1", "the integer 3, not a tensor", ""},
    {"data.mean", "column 1", "gives the operator mean", "parentheses"},
    {"torch", "column 1", "the module torch", ""},
    {"data()", "column 1", "cannot be called", ""},
    {"data.shape[7]", "column 12", "no dimension 7", ""},
    {"data * (1 / 0)", "column 11", "division by zero", ""},
    {"data * (9223372036854775807 + 1)", "column 29", "64 bits", ""},
    {"data * 9 ** 99", "column 10", "64 bits", ""},
    {"data * (-1) ** 0.5", "column 13", "no real number", ""},
    {"tensor([[1, 2], [3]])", "column 8", "of one length", ""},
    {"data.size(9)", "column 11", "no dimension 9", ""},
    {"data.float(1)", "column 12", "takes no arguments", ""},
    {"float('inf')", "column 1", "float needs a tensor", "written inf"},
    {"gelu(data, approximate='x')", "column 1", "gelu: ", ""},
};

TEST(Refusal, SaysWhereWhatAndWhatInstead) {
  for (const Case& c : kCases) {
    const base::Error error = refusal(c.text);
    EXPECT_EQ(error.where, std::string("line 1, ") + c.where) << c.text << "\n" << error.message;
    EXPECT_THAT(error.message, HasSubstr(c.message)) << c.text;
    EXPECT_THAT(error.remedy, HasSubstr(c.remedy)) << c.text;
  }
}

}  // namespace
}  // namespace tt::eval

#include "tensor_tracer/expr/ast.h"

#include <array>

namespace tt::expr {
namespace {

constexpr std::array<std::string_view, 21> kOperators = {
    "",  "+",  "-",  "*", "/",  "//", "%",  "**",  "@",   "&", "|",
    "^", "==", "!=", "<", "<=", ">",  ">=", "neg", "pos", "~"};

}  // namespace

std::string_view to_string(Operator op) { return kOperators[static_cast<std::size_t>(op)]; }

}  // namespace tt::expr

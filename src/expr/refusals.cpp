#include "src/expr/refusals.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "tensor_tracer/base/nearest.h"

namespace tt::expr {
namespace {

struct Refusal {
  std::string_view tokens;  // separated by blanks
  std::string_view what;    // empty: "..." is not part of the language
  std::string_view remedy;  // $ is replaced by the operator of a token such as +=
};

constexpr std::string_view kNoProgram = "an expression is one formula; there are no statements";

constexpr std::array kRefusals = {
    Refusal{"and", "\"and\" does not work on tensors", "write (a) & (b), or logical_and(a, b)"},
    Refusal{"or", "\"or\" does not work on tensors", "write (a) | (b), or logical_or(a, b)"},
    Refusal{"not", "\"not\" does not work on tensors", "write ~(mask), or logical_not(a)"},
    Refusal{"if else", "there is no conditional expression", "write where(condition, a, b)"},
    Refusal{"for", "there are no comprehensions and no loops",
            "operators act on whole tensors; use dim= to say along which axis"},
    Refusal{"in", "", "write (a == b).any()"},
    Refusal{"is", "", "write =="},
    Refusal{"lambda", "a program cannot define functions", "write the formula itself"},
    Refusal{"=", "an assignment is not part of an expression",
            "write only what stands right of the =; to compare, write =="},
    Refusal{":=", "an assignment is not part of an expression", "write the value in its place"},
    Refusal{"<>", "", "write !="},
    Refusal{"<<", "shifts are not part of the language", "multiply by a power of two"},
    Refusal{">>", "shifts are not part of the language", "divide by a power of two with //"},
    Refusal{"{", "there are no sets and dictionaries", "write a list [a, b] or a tuple (a, b)"},
    Refusal{"<<=", "an expression changes nothing", "multiply by a power of two"},
    Refusal{">>=", "an expression changes nothing", "divide by a power of two with //"},
    Refusal{"+= -= *= /= //= %= **= @= &= |= ^=", "an expression changes nothing", "write a $ b"},
    Refusal{"-> as assert async await break class continue def del elif except finally from global "
            "import nonlocal pass raise return try while with yield",
            "", kNoProgram},
};

constexpr std::string_view kLine =
    "a line is name = value, place = value, a call, or if condition: one of these";
constexpr std::string_view kNoElse = "write one more line, with the opposite condition: if ~(...):";

// Refusals for a script, where the texts for an expression would be wrong.
constexpr std::array kScriptRefusals = {
    Refusal{"else", "there is no \"else\"", kNoElse},
    Refusal{"elif", "there is no \"elif\"", kNoElse},
    Refusal{"for", "there are no loops and no comprehensions",
            "operators act on whole tensors; layers[layer] stands for every layer"},
    Refusal{"while", "there are no loops",
            "operators act on whole tensors; layers[layer] stands for every layer"},
    Refusal{"def", "a program cannot define functions", "name a value: name = expression"},
    Refusal{"class", "a program cannot define classes", "name a value: name = expression"},
    Refusal{"=", "an assignment inside an expression", "a line has one =; to compare, write =="},
    Refusal{":=", "an assignment inside an expression",
            "name the value on a separate line: name = expression"},
    Refusal{"+= -= *= /=", "an assignment inside an expression",
            "begin the line with the name that gets the value"},
    Refusal{"//= %= **= @= &= |= ^=", "there is no \"$=\"", "write a = a $ b"},
    Refusal{"-> as assert async await break continue del except finally from global import "
            "nonlocal pass raise return try with yield",
            "", kLine},
};

std::string with_operator(std::string_view text, const std::string& token) {
  std::string written(text);
  if (const auto at = written.find('$'); at != std::string::npos)
    written.replace(at, 1, token, 0, token.size() - 1);
  return written;
}

}  // namespace

std::optional<Problem> find_refusal(const Token& token, Form form) {
  if (token.kind != TokenKind::kName && token.kind != TokenKind::kPunctuation) return std::nullopt;
  const auto look_up = [&](const auto& table) -> std::optional<Problem> {
    const auto found = std::ranges::find_if(
        table, [&](const Refusal& row) { return base::has_word(row.tokens, token.text); });
    if (found == table.end()) return std::nullopt;
    const std::string what = found->what.empty()
                                 ? "\"" + token.text + "\" is not part of the language"
                                 : with_operator(found->what, token.text);
    return Problem{token.span, what, with_operator(found->remedy, token.text)};
  };
  if (form == Form::kScript) {
    if (auto problem = look_up(kScriptRefusals)) return problem;
  }
  return look_up(kRefusals);
}

bool is_keyword(const std::string& word) {
  return find_refusal({.kind = TokenKind::kName, .text = word}).has_value();
}

}  // namespace tt::expr

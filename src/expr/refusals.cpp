#include "src/expr/refusals.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace tt::expr {
namespace {

struct Refusal {
  std::string_view token;
  std::string_view what;
  std::string_view remedy;
};

constexpr std::string_view kNoProgram = "an expression is one formula; there are no statements";

constexpr std::array kRefusals = {
    Refusal{"and", "\"and\" does not work on tensors", "write (a) & (b), or logical_and(a, b)"},
    Refusal{"or", "\"or\" does not work on tensors", "write (a) | (b), or logical_or(a, b)"},
    Refusal{"not", "\"not\" does not work on tensors", "write ~(mask), or logical_not(a)"},
    Refusal{"if", "there is no conditional expression", "write where(condition, a, b)"},
    Refusal{"else", "there is no conditional expression", "write where(condition, a, b)"},
    Refusal{"for", "there are no comprehensions and no loops",
            "operators act on whole tensors; use dim= to say along which axis"},
    Refusal{"in", "\"in\" is not part of the language", "write (a == b).any()"},
    Refusal{"is", "\"is\" is not part of the language", "write =="},
    Refusal{"lambda", "there are no functions of one's own", "write the formula itself"},
    Refusal{"await", "\"await\" is not part of the language", kNoProgram},
    Refusal{"yield", "\"yield\" is not part of the language", kNoProgram},
    Refusal{"=", "an assignment is not part of an expression",
            "write only what stands right of the =; to compare, write =="},
    Refusal{":=", "an assignment is not part of an expression", "write the value in its place"},
    Refusal{"->", "\"->\" is not part of the language", kNoProgram},
    Refusal{"<>", "\"<>\" is not part of the language", "write !="},
    Refusal{"<<", "shifts are not part of the language", "multiply by a power of two"},
    Refusal{">>", "shifts are not part of the language", "divide by a power of two with //"},
    Refusal{"{", "there are no sets and dictionaries", "write a list [a, b] or a tuple (a, b)"},
    Refusal{"+=", "an expression changes nothing", "write a + b"},
    Refusal{"-=", "an expression changes nothing", "write a - b"},
    Refusal{"*=", "an expression changes nothing", "write a * b"},
    Refusal{"/=", "an expression changes nothing", "write a / b"},
    Refusal{"//=", "an expression changes nothing", "write a // b"},
    Refusal{"%=", "an expression changes nothing", "write a % b"},
    Refusal{"**=", "an expression changes nothing", "write a ** b"},
    Refusal{"@=", "an expression changes nothing", "write a @ b"},
    Refusal{"&=", "an expression changes nothing", "write a & b"},
    Refusal{"|=", "an expression changes nothing", "write a | b"},
    Refusal{"^=", "an expression changes nothing", "write a ^ b"},
    Refusal{"<<=", "an expression changes nothing", "multiply by a power of two"},
    Refusal{">>=", "an expression changes nothing", "divide by a power of two with //"},
};

constexpr std::array<std::string_view, 21> kStatements = {
    "as",       "assert", "async",  "break",   "class", "continue", "def",
    "del",      "elif",   "except", "finally", "from",  "global",   "import",
    "nonlocal", "pass",   "raise",  "return",  "try",   "while",    "with"};

}  // namespace

std::optional<Problem> find_refusal(const Token& token) {
  if (token.kind != TokenKind::kName && token.kind != TokenKind::kPunctuation) return std::nullopt;
  const auto found = std::ranges::find(kRefusals, token.text, &Refusal::token);
  if (found != kRefusals.end()) {
    return Problem{token.span, std::string(found->what), std::string(found->remedy)};
  }
  if (std::ranges::find(kStatements, token.text) == kStatements.end()) return std::nullopt;
  return Problem{token.span, "\"" + token.text + "\" is not part of the language",
                 std::string(kNoProgram)};
}

bool is_keyword(const std::string& word) {
  return find_refusal({TokenKind::kName, {}, word, 0, 0}).has_value();
}

}  // namespace tt::expr

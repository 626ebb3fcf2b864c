#pragma once

#include <optional>
#include <string>

#include "src/expr/lexer.h"

namespace tt::expr {

/// One formula, or lines that name values, write and call.
enum class Form { kExpression, kScript };

/// The problem of a part of Python that the language leaves out, with what to write instead;
/// nothing if the token is no such part.
std::optional<Problem> find_refusal(const Token& token, Form form = Form::kExpression);

/// True for Python's keywords, but not for True, False and None.
bool is_keyword(const std::string& word);

}  // namespace tt::expr

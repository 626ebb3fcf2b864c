#pragma once

#include <optional>
#include <string>

#include "src/expr/lexer.h"

namespace tt::expr {

/// kExpression: one formula. kScript: lines that name values, write and call.
enum class Form { kExpression, kScript };

/// The problem of a token for a part of Python outside the language, with the text to write
/// instead. Nothing if the token is not such a part.
std::optional<Problem> find_refusal(const Token& token, Form form = Form::kExpression);

/// True for Python's keywords, except True, False and None.
bool is_keyword(const std::string& word);

}  // namespace tt::expr

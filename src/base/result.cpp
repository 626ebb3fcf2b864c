#include "tensor_tracer/base/result.h"

#include <utility>

namespace tt::base {

Error invalid_argument(std::string where, std::string message, std::string remedy) {
  return {.code = "invalid_argument",
          .message = std::move(message),
          .where = std::move(where),
          .remedy = std::move(remedy)};
}

std::string to_string(const Error& error) {
  std::string text = error.where.empty() ? error.message : error.where + ": " + error.message;
  if (!error.remedy.empty()) text += "; " + error.remedy;
  return text;
}

}  // namespace tt::base

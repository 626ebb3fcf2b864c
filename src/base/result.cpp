#include "tensor_tracer/base/result.h"

namespace tt::base {

std::string to_string(const Error& error) {
  std::string text = error.where.empty() ? error.message : error.where + ": " + error.message;
  if (!error.remedy.empty()) text += "; " + error.remedy;
  return text;
}

}  // namespace tt::base

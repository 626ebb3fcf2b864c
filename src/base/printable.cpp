#include "tensor_tracer/base/printable.h"

#include <algorithm>

namespace tt::base {

std::string printable(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char letter) { return letter < ' ' || letter == 0x7f; }, '?');
  return text;
}

}  // namespace tt::base

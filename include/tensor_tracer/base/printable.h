#pragma once

#include <string>

namespace tt::base {

/// A text from outside for a terminal: control characters, which the terminal would obey, become
/// question marks.
std::string printable(std::string text);

}  // namespace tt::base

#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace tt::base {

/// A broken invariant: a defect of this program, never of its input. The exception reaches main,
/// which stops every rank.
class CheckError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Names this thread's rank in every later check text, for example "rank 3 (tensor 1, data 1)".
/// Thread: sets a thread-local label.
void set_rank_label(std::string label);

/// Throws CheckError. Its text has the expression, the values, the place in the code and the rank
/// label.
[[noreturn]] void check_failed(const char* file, int line, const std::string& what);

namespace detail {
template <typename A, typename B>
std::string describe_values(const char* expression, const A& a, const B& b) {
  std::ostringstream out;
  out << expression << " (" << a << " against " << b << ")";
  return out.str();
}
}  // namespace detail

}  // namespace tt::base

/// TT_CHECK(condition, text): the text is evaluated only on failure.
#define TT_CHECK(condition, text)                                                          \
  do {                                                                                     \
    if (!(condition)) [[unlikely]]                                                         \
      ::tt::base::check_failed(__FILE__, __LINE__, std::string(#condition ": ") + (text)); \
  } while (false)

#define TT_CHECK_EQ(a, b)                                                                      \
  do {                                                                                         \
    const auto& tt_a = (a);                                                                    \
    const auto& tt_b = (b);                                                                    \
    if (!(tt_a == tt_b)) [[unlikely]]                                                          \
      ::tt::base::check_failed(__FILE__, __LINE__,                                             \
                               ::tt::base::detail::describe_values(#a " == " #b, tt_a, tt_b)); \
  } while (false)

#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "tensor_tracer/base/check.h"

namespace tt::base {

/// The error of an input from outside (a flag, a file, a message), for the person who sent the
/// input. Failures of the machine are exceptions instead: docs/errors.md.
struct Error {
  /// A stable word for programs, for example "invalid_argument".
  std::string code;
  /// One sentence that names the input and both values.
  std::string message;
  /// The flag, key, file or field that is wrong; may be empty.
  std::string where = {};
  /// How to correct the input; may be empty.
  std::string remedy = {};
};

/// The error of a wrong argument: its code is "invalid_argument".
Error invalid_argument(std::string where, std::string message, std::string remedy = "");

/// "where: message; remedy" on one line.
std::string to_string(const Error& error);

/// A value, or an error instead of the value. Thread: as T.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }

  /// REQUIRES: ok().
  T& value() & {
    require_ok();
    return std::get<T>(state_);
  }
  const T& value() const& {
    require_ok();
    return std::get<T>(state_);
  }
  T&& value() && {
    require_ok();
    return std::get<T>(std::move(state_));
  }
  /// REQUIRES: !ok().
  const Error& error() const { return std::get<Error>(state_); }

 private:
  void require_ok() const {
    TT_CHECK(ok(), "value() of an error: " + to_string(std::get<Error>(state_)));
  }
  std::variant<T, Error> state_;
};

/// Success, or the error.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  /// REQUIRES: !ok().
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace tt::base

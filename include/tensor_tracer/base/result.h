#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "tensor_tracer/base/check.h"

namespace tt::base {

/// What is wrong with something that came from outside (a flag, a file, a message), told to the
/// person who sent it. Failures of the machine are exceptions instead: docs/errors.md.
struct Error {
  /// A stable word for programs, for example "invalid_argument".
  std::string code;
  /// One sentence that names the thing and both values.
  std::string message;
  /// The flag, key, file or field that is wrong; may be empty.
  std::string where = {};
  /// What to do about it; may be empty.
  std::string remedy = {};
};

/// The error of something that was given wrongly: its code is "invalid_argument".
Error invalid_argument(std::string where, std::string message, std::string remedy = "");

/// "where: message; remedy" on one line.
std::string to_string(const Error& error);

/// A value, or the error in its place. Thread: as T.
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

/// Nothing, or the reason why it failed.
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

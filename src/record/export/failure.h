#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "tensor_tracer/base/result.h"

namespace tt::record {

/// Ends an export from within its callbacks; export_recording() returns the error. Thread: any.
class Failure : public std::runtime_error {
 public:
  explicit Failure(base::Error error)
      : std::runtime_error(base::to_string(error)), error_(std::move(error)) {}
  const base::Error& error() const { return error_; }

 private:
  base::Error error_;
};

}  // namespace tt::record

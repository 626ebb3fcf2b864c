#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "tensor_tracer/base/result.h"
#include "tensor_tracer/comm/process_group.h"

namespace tt::attach {

/// An error for the person who wrote the training script.
class AttachError : public std::runtime_error {
 public:
  explicit AttachError(base::Error error)
      : std::runtime_error(to_string(error)), error_(std::move(error)) {}
  const base::Error& error() const { return error_; }

 private:
  base::Error error_;
};

/// {"code", "message", "where", "remedy"}. REQUIRES: a text of the Python side.
base::Error error_of(const nlohmann::json& text);

/// Throws AttachError on every rank if `of_rank_0` is an error on rank 0, so that no rank waits for
/// another. Collective.
void agree(const comm::ProcessGroup& control, const base::Status& of_rank_0);

}  // namespace tt::attach

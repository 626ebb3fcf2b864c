#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

#include "tensor_tracer/trace/compressor.h"
#include "tensor_tracer/trace/plan.h"

namespace tt::trace {

/// The numbers of one pass: `values` are [rows, tokens, units], row-major.
struct UnitNumbers {
  const double* values = nullptr;
  std::int64_t rows = 0, tokens = 0;
  std::int64_t first_row = 0;    // of the pass's batch
  std::int64_t first_token = 0;  // position
};

/// The k tokens with the largest number of each unit, over the passes so far. A text that comes
/// again (the same ids around the token) has one place in the list, with its largest number. NaN is
/// left out. Thread: one.
class KeptTokens {
 public:
  explicit KeptTokens(const KeptForm& form)
      : form_(form), best_(static_cast<std::size_t>(form.units)) {}

  /// `ids`: int64 [batch, sequence] of the pass.
  void add(const UnitNumbers& numbers, const ForwardScope& scope, const at::Tensor& ids);
  /// Writes KeptForm::shape() numbers, the largest first; NaN and -1 for places that are empty.
  void write(double* out) const;

 private:
  struct Token {
    double value = 0;
    std::int64_t step = 0, row = 0, position = 0;
    std::array<std::int64_t, 2 * KeptForm::kContext + 1> ids = {};
  };
  void insert(std::vector<Token>& best, Token token) const;

  const KeptForm form_;
  std::vector<std::vector<Token>> best_;  // by unit
};

}  // namespace tt::trace

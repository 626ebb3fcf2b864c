#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "tensor_tracer/data/sample_order.h"
#include "tensor_tracer/data/token_source.h"

namespace tt::data {

/// One micro-batch: both int64 [rows, seq_length]; labels are the tokens shifted by one.
struct Batch {
  at::Tensor tokens;
  at::Tensor labels;
  std::int64_t first_row = 0;  // in the global batch
};

/// Makes global batches from a corpus. On every mesh, row r of the global batch of step N is sample
/// number (N-1) * global_batch + r of the order. Thread: one.
class Batches {
 public:
  /// Does not own its arguments: tokens and order outlive the object.
  Batches(const TokenSource& tokens, SampleOrder& order, std::int64_t seq_length);

  /// Rows [first_row, first_row + rows) of training step `step`, from 1.
  Batch train(std::int64_t step, std::int64_t global_batch, std::int64_t first_row,
              std::int64_t rows);
  /// The same rows of validation batch `index`, from 0.
  Batch valid(std::int64_t index, std::int64_t global_batch, std::int64_t first_row,
              std::int64_t rows);

 private:
  using SampleOf = std::function<std::int64_t(std::int64_t row)>;
  Batch read(std::int64_t first_row, std::int64_t rows, const SampleOf& sample_of) const;

  const TokenSource& tokens_;
  SampleOrder& order_;
  const std::int64_t seq_length_;
};

}  // namespace tt::data

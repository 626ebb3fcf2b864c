#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "tensor_tracer/data/blend_order.h"
#include "tensor_tracer/data/sample_order.h"
#include "tensor_tracer/data/samples.h"

namespace tt::data {

/// One micro-batch; all tensors [rows, seq_length].
struct Batch {
  at::Tensor tokens;           // int64
  at::Tensor labels;           // int64: the next token of the document; -1 after the last
  std::int64_t first_row = 0;  // in the global batch
  /// int64: index in the row of the first token of the token's document. Undefined: each row is one
  /// sequence.
  at::Tensor starts = {};
  /// bool: the loss of the label counts. Undefined: all labels of the global batch count.
  at::Tensor counted = {};
  /// Number of labels of the global batch that count, divided by its number of micro-batches of
  /// this size. The sum of the losses divided by it, averaged over the micro-batches, is the mean
  /// over all labels that count.
  double num_counted = 0;

  /// bool [rows, seq_length]: the loss of the token itself counts, so that it is part of a
  /// response. False for the first token of a row or a document. Undefined: all labels count.
  at::Tensor response() const;
};

/// Makes global batches from the datasets of a run. On every mesh, row r of the global batch of
/// step N is sample number (N-1) * global_batch + r of the order. Thread: one.
class Batches {
 public:
  /// `blend` outlives the object. REQUIRES: every part has a training and a validation sample at
  /// this split. The order depends on `seed`.
  Batches(const Blend& blend, std::int64_t seq_length, double valid_percent, std::uint64_t seed);

  /// Rows [first_row, first_row + rows) of training step `step`, from 1.
  Batch train(std::int64_t step, std::int64_t global_batch, std::int64_t first_row,
              std::int64_t rows);
  /// The same rows of validation batch `index`, from 0.
  Batch valid(std::int64_t index, std::int64_t global_batch, std::int64_t first_row,
              std::int64_t rows);
  /// The share of the labels of validation batch `index` that count in the loss.
  double valid_share(std::int64_t index, std::int64_t global_batch);

 private:
  /// A sample of a part.
  struct Sample {
    const SampleSource* source;
    std::int64_t number;
  };
  struct GlobalBatch {
    bool is_train = false;
    std::int64_t index = -1, global_batch = 0;
    bool operator==(const GlobalBatch&) const = default;
  };
  Sample sample(const GlobalBatch& of, std::int64_t row);
  Batch read(const GlobalBatch& of, std::int64_t first_row, std::int64_t rows);
  std::int64_t count(const GlobalBatch& of);

  const Blend& blend_;
  const std::int64_t seq_length_;
  bool is_plain_ = true;
  std::vector<SampleOrder> orders_;  // of each part
  BlendOrder train_, valid_;
  struct Counted {
    GlobalBatch of;
    std::int64_t labels = 0;
  };
  Counted last_counted_;  // of the last global batch
};

}  // namespace tt::data

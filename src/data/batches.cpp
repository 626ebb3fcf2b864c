#include "tensor_tracer/data/batches.h"

#include <ATen/ATen.h>

#include <vector>

namespace tt::data {

Batches::Batches(const TokenSource& tokens, SampleOrder& order, std::int64_t seq_length)
    : tokens_(tokens), order_(order), seq_length_(seq_length) {}

Batch Batches::train(std::int64_t step, std::int64_t global_batch, std::int64_t first_row,
                     std::int64_t rows) {
  return read(
      first_row, rows,
      [&](std::int64_t row) { return order_.train_sample((step - 1) * global_batch + row); });
}

Batch Batches::valid(std::int64_t index, std::int64_t global_batch, std::int64_t first_row,
                     std::int64_t rows) {
  return read(
      first_row, rows,
      [&](std::int64_t row) { return order_.valid_sample(index * global_batch + row); });
}

Batch Batches::read(std::int64_t first_row, std::int64_t rows, const SampleOf& sample_of) const {
  std::vector<at::Tensor> samples;
  for (std::int64_t row = 0; row < rows; ++row)
    samples.push_back(tokens_.read(sample_of(first_row + row) * seq_length_, seq_length_ + 1));
  const at::Tensor ids = at::stack(samples);
  return {ids.narrow(1, 0, seq_length_).contiguous(), ids.narrow(1, 1, seq_length_).contiguous(),
          first_row};
}

}  // namespace tt::data

#include "tensor_tracer/data/batches.h"

#include <ATen/ATen.h>

namespace tt::data {

Batches::Batches(const TextCorpus& corpus, SampleOrder& order, std::int64_t seq_length)
    : corpus_(corpus), order_(order), seq_length_(seq_length) {}

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
  at::Tensor bytes = at::empty({rows, seq_length_ + 1}, at::device(at::kCPU).dtype(at::kByte));
  for (std::int64_t row = 0; row < rows; ++row) {
    corpus_.read(sample_of(first_row + row) * seq_length_,
                 {bytes.data_ptr<std::uint8_t>() + row * (seq_length_ + 1),
                  static_cast<std::size_t>(seq_length_ + 1)});
  }
  return {bytes.narrow(1, 0, seq_length_).to(at::kLong),
          bytes.narrow(1, 1, seq_length_).to(at::kLong), first_row};
}

}  // namespace tt::data

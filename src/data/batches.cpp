#include "tensor_tracer/data/batches.h"

#include <ATen/ATen.h>

namespace tt::data {

Batches::Batches(const TextCorpus& corpus, SampleOrder& order, std::int64_t seq_length)
    : corpus_(corpus), order_(order), seq_length_(seq_length) {}

Batch Batches::train(std::int64_t step, std::int64_t global_batch, std::int64_t first_row,
                     std::int64_t rows) {
  std::vector<std::int64_t> samples;
  for (std::int64_t row = first_row; row < first_row + rows; ++row) {
    samples.push_back(order_.train_sample((step - 1) * global_batch + row));
  }
  return read(samples, first_row);
}

Batch Batches::valid(std::int64_t index, std::int64_t global_batch, std::int64_t first_row,
                     std::int64_t rows) {
  std::vector<std::int64_t> samples;
  for (std::int64_t row = first_row; row < first_row + rows; ++row) {
    samples.push_back(order_.valid_sample(index * global_batch + row));
  }
  return read(samples, first_row);
}

Batch Batches::read(const std::vector<std::int64_t>& samples, std::int64_t first_row) const {
  const auto rows = static_cast<std::int64_t>(samples.size());
  at::Tensor bytes = at::empty({rows, seq_length_ + 1}, at::device(at::kCPU).dtype(at::kByte));
  for (std::int64_t row = 0; row < rows; ++row) {
    corpus_.read(samples[static_cast<std::size_t>(row)] * seq_length_,
                 {bytes.data_ptr<std::uint8_t>() + row * (seq_length_ + 1),
                  static_cast<std::size_t>(seq_length_ + 1)});
  }
  return {bytes.narrow(1, 0, seq_length_).to(at::kLong),
          bytes.narrow(1, 1, seq_length_).to(at::kLong), first_row};
}

}  // namespace tt::data

#include <ATen/ATen.h>

#include <algorithm>
#include <memory>

#include "tensor_tracer/data/samples.h"

namespace tt::data {

void StreamSamples::read(std::int64_t sample, const Row& row) const {
  const std::int64_t begin = sample * seq_length_;
  const at::Tensor ids = tokens_->read(begin, seq_length_ + 1);
  const auto* const first = ids.const_data_ptr<std::int64_t>();
  std::copy_n(first, seq_length_, row.tokens.begin());
  std::copy_n(first + 1, seq_length_, row.labels.begin());
  std::ranges::fill(row.starts, 0);
  if (!row.counted.empty()) tokens_->read_counted(begin + 1, row.counted);
}

std::int64_t StreamSamples::num_counted(std::int64_t sample) const {
  if (is_plain()) return seq_length_;
  const auto size = static_cast<std::size_t>(seq_length_);
  const auto counted = std::make_unique<bool[]>(size);
  tokens_->read_counted(sample * seq_length_ + 1, {counted.get(), size});
  return std::count(counted.get(), counted.get() + size, true);
}

}  // namespace tt::data

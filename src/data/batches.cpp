#include "tensor_tracer/data/batches.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "tensor_tracer/base/hash.h"

namespace tt::data {
namespace {

std::vector<double> weights_of(const Blend& blend) {
  std::vector<double> weights;
  for (const BlendPart& part : blend) weights.push_back(part.weight);
  return weights;
}

template <typename Number>
std::span<Number> row_of(const at::Tensor& x_BT, std::int64_t row) {
  if (!x_BT.defined()) return {};
  const std::int64_t length = x_BT.size(1);
  return {x_BT.mutable_data_ptr<Number>() + row * length, static_cast<std::size_t>(length)};
}

}  // namespace

// The label of a token is the next one.
at::Tensor Batch::response() const {
  if (!counted.defined()) return {};
  const std::int64_t length = tokens.size(1);
  at::Tensor mask = at::constant_pad_nd(counted.narrow(1, 0, length - 1), {1, 0}, false);
  if (!starts.defined()) return mask;
  const at::Tensor column = at::arange(length, at::device(at::kCPU).dtype(at::kLong));
  return mask.logical_and_(starts.ne(column));
}

Batches::Batches(const Blend& blend, std::int64_t seq_length, double valid_percent,
                 std::uint64_t seed)
    : blend_(blend), seq_length_(seq_length), train_(weights_of(blend)), valid_(weights_of(blend)) {
  for (std::size_t part = 0; part < blend.size(); ++part) {
    is_plain_ = is_plain_ && blend[part].samples->is_plain();
    orders_.emplace_back(blend[part].samples->size(), valid_percent,
                         part == 0 ? seed : base::mix(seed, part));
  }
}

Batch Batches::train(std::int64_t step, std::int64_t global_batch, std::int64_t first_row,
                     std::int64_t rows) {
  return read({true, step - 1, global_batch}, first_row, rows);
}

Batch Batches::valid(std::int64_t index, std::int64_t global_batch, std::int64_t first_row,
                     std::int64_t rows) {
  return read({false, index, global_batch}, first_row, rows);
}

double Batches::valid_share(std::int64_t index, std::int64_t global_batch) {
  if (is_plain_) return 1.0;
  return static_cast<double>(count({false, index, global_batch})) /
         static_cast<double>(global_batch * seq_length_);
}

Batches::Sample Batches::sample(const GlobalBatch& of, std::int64_t row) {
  const BlendOrder::Pick pick =
      (of.is_train ? train_ : valid_).at(of.index * of.global_batch + row);
  SampleOrder& order = orders_[pick.part];
  return {blend_[pick.part].samples.get(),
          of.is_train ? order.train_sample(pick.number) : order.valid_sample(pick.number)};
}

// Number of labels that count in the whole global batch. The same on every rank, which reads the
// other ranks' rows for it, but only their masks.
std::int64_t Batches::count(const GlobalBatch& of) {
  if (last_counted_.of == of) return last_counted_.labels;
  std::int64_t labels = 0;
  for (std::int64_t row = 0; row < of.global_batch; ++row) {
    const Sample counted = sample(of, row);
    labels += counted.source->num_counted(counted.number);
  }
  last_counted_ = {of, labels};
  return labels;
}

Batch Batches::read(const GlobalBatch& of, std::int64_t first_row, std::int64_t rows) {
  const auto make = [&](at::ScalarType dtype) {
    return at::empty({rows, seq_length_}, at::device(at::kCPU).dtype(dtype));
  };
  Batch batch{make(at::kLong), make(at::kLong), first_row};
  if (!is_plain_) {
    batch.starts = make(at::kLong);
    batch.counted = make(at::kBool);
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    const Sample read = sample(of, first_row + row);
    read.source->read(
        read.number,
        {row_of<std::int64_t>(batch.tokens, row), row_of<std::int64_t>(batch.labels, row),
         row_of<std::int64_t>(batch.starts, row), row_of<bool>(batch.counted, row)});
  }
  if (is_plain_) return batch;
  const std::int64_t counted = count(of);
  if (counted == of.global_batch * seq_length_) batch.counted.reset();
  if (!batch.starts.any().item<bool>()) batch.starts.reset();
  batch.num_counted = static_cast<double>(counted) * static_cast<double>(rows) /
                      static_cast<double>(of.global_batch);
  return batch;
}

}  // namespace tt::data

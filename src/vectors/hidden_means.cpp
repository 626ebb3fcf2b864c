#include "src/vectors/hidden_means.h"

#include <ATen/ATen.h>

#include <utility>

// Shapes: B batch, K kinds, T tokens, R rows, H hidden.

namespace tt::vectors {

HiddenMeans::HiddenMeans(const points::PlaceTable& places)
    : acts_here_(std::make_unique<bool[]>(places.num_keys())),
      row_of_key_(places.num_keys(), 0),
      num_rows_(places.num_layers() + 1) {
  acts_ = acts_here_.get();
  const auto read = [&](const points::PlaceKey& key, std::int64_t row) {
    acts_here_[key.index] = true;
    row_of_key_[key.index] = row;
  };
  read(places.key("Embedding", 0), 0);
  for (int layer = 1; layer < places.num_layers(); ++layer)
    read(places.key(places.layer_output(), layer), layer);
  read(places.key("FinalNorm", 0), num_rows_ - 1);
}

void HiddenMeans::begin(at::Tensor weights_BKT, std::vector<std::int64_t> lengths) {
  weights_ = std::move(weights_BKT);
  lengths_ = std::move(lengths);
  sums_ = at::Tensor();
}

at::Tensor HiddenMeans::at_point(const points::PlaceKey& place, const at::Tensor& local_BTH) {
  if (!sums_.defined()) {
    sums_ = at::zeros({weights_.size(0), weights_.size(1), num_rows_, local_BTH.size(2)},
                      weights_.options());
  }
  const std::int64_t row = row_of_key_[place.index];
  for (std::int64_t b = 0; b < weights_.size(0); ++b) {
    const std::int64_t length = lengths_[static_cast<std::size_t>(b)];
    const at::Tensor states_TH = local_BTH[b].narrow(0, 0, length).to(at::kDouble);
    sums_[b].select(1, row).copy_(at::mm(weights_[b].narrow(1, 0, length), states_TH));
  }
  return local_BTH;
}

}  // namespace tt::vectors

#include "tensor_tracer/train/update_watch.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/accumulate.h>

#include <cmath>

#include "tensor_tracer/model/gpt.h"
#include "tensor_tracer/train/gradients.h"

namespace tt::train {
namespace {

// Sums over the numbers of one parameter, in the order of the columns of a tensor.
enum : std::int64_t { kWeight, kGradient, kUpdate, kFirstMoment, kSecondMoment, kNumSums };

std::optional<points::PlaceKey> find_place(const points::PlaceTable* places) {
  const auto row = places != nullptr ? places->find("Updates") : std::nullopt;
  return row ? std::optional(places->key(*row, 0)) : std::nullopt;
}

}  // namespace

UpdateWatch::UpdateWatch(const std::vector<nn::Parameter>& parameters,
                         const comm::ProcessGroup& tensor, const optim::AdamW& optimizer,
                         trace::Tracer& tracer)
    : parameters_(parameters),
      tensor_(tensor),
      optimizer_(optimizer),
      tracer_(tracer),
      place_(find_place(tracer.context().places.get())) {}

// Over the numbers that count on this rank, in double: of x², or of x.
double UpdateWatch::owned_sum(const at::Tensor& local, const nn::Parameter& parameter,
                              bool squares) const {
  double sum = 0;
  for (const at::Tensor& part : owned_parts(local, parameter.placement, tensor_)) {
    if (squares) {
      const double norm = at::linalg_vector_norm(part, 2, {}, false, at::kDouble).item<double>();
      sum += norm * norm;
    } else {
      sum += at::sum(part, at::kDouble).item<double>();
    }
  }
  return sum;
}

void UpdateWatch::before_update(std::int64_t step) {
  before_.clear();
  if (!place_ || !tracer_.wants(*place_, {.step = step})) return;
  const at::NoGradGuard no_grad;
  gradient_squares_.clear();
  for (const nn::Parameter& parameter : parameters_) {
    gradient_squares_.push_back(owned_sum(parameter.local.grad(), parameter, /*squares=*/true));
    before_.push_back(parameter.local.detach().clone());
  }
}

void UpdateWatch::after_update(std::int64_t step) {
  if (before_.empty()) return;
  trace::Pass pass = tracer_.begin({.step = step});
  const auto rows = static_cast<std::int64_t>(parameters_.size());
  pass.capture_derived(*place_, {1, rows, std::ssize(model::kUpdateColumns)}, at::kDouble,
                       [this] { return table().unsqueeze(0); });
  pass.end_forward();
  pass.finish();
  before_.clear();
}

// [parameters, columns].
at::Tensor UpdateWatch::table() const {
  const auto rows = static_cast<std::int64_t>(parameters_.size());
  at::Tensor sums = at::zeros({rows, kNumSums}, at::device(at::kCPU).dtype(at::kDouble));
  std::vector<double> counts;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto at = static_cast<std::size_t>(row);
    const nn::Parameter& parameter = parameters_[at];
    const optim::AdamW::Moments moments = optimizer_.moments(at);
    const at::Tensor update = parameter.local.detach() - before_[at];
    const double values[kNumSums] = {owned_sum(before_[at], parameter, true), gradient_squares_[at],
                                     owned_sum(update, parameter, true),
                                     owned_sum(moments.first, parameter, true),
                                     owned_sum(moments.second, parameter, false)};
    std::copy_n(values, kNumSums, sums[row].mutable_data_ptr<double>());
    counts.push_back(static_cast<double>(c10::multiply_integers(parameter.full_shape)));
  }
  tensor_.all_reduce(sums);
  const at::Tensor count = at::tensor(counts, sums.options());
  const auto norm_of = [&](std::int64_t sum) { return sums.select(1, sum).sqrt(); };
  const auto rms_of = [&](std::int64_t sum) { return (sums.select(1, sum) / count).sqrt(); };
  return at::stack(
      {count, norm_of(kWeight), rms_of(kWeight), norm_of(kGradient), rms_of(kGradient),
       norm_of(kUpdate), rms_of(kUpdate), norm_of(kUpdate) / norm_of(kWeight),
       norm_of(kFirstMoment), rms_of(kFirstMoment), sums.select(1, kSecondMoment) / count},
      1);
}

}  // namespace tt::train

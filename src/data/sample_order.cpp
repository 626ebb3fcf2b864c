#include "tensor_tracer/data/sample_order.h"

#include <cmath>
#include <random>
#include <utility>

#include "tensor_tracer/base/check.h"

namespace tt::data {
namespace {

constexpr std::int64_t kRun = 16;

// Uniform in [0, bound) without bias. Gives the same numbers with every standard library, unlike
// std::uniform_int_distribution.
std::uint64_t below(std::mt19937_64& generator, std::uint64_t bound) {
  const std::uint64_t limit = ~std::uint64_t{0} - ~std::uint64_t{0} % bound;
  while (true) {
    const std::uint64_t value = generator();
    if (value < limit) return value % bound;
  }
}

// Fisher-Yates shuffle, seeded by (seed, stream).
void shuffle(std::vector<std::int64_t>& samples, std::uint64_t seed, std::uint32_t stream) {
  std::seed_seq sequence{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                         stream};
  std::mt19937_64 generator(sequence);
  for (std::size_t i = samples.size(); i > 1; --i)
    std::swap(samples[i - 1], samples[below(generator, i)]);
}

constexpr std::uint32_t kValidationStream = ~std::uint32_t{0};

}  // namespace

SampleOrder::SampleOrder(std::int64_t samples, double valid_percent, std::uint64_t seed)
    : seed_(seed) {
  // A corpus with few runs is split sample by sample.
  const std::int64_t run = samples >= 100 * kRun ? kRun : 1;
  const double share = valid_percent / 100.0;
  for (std::int64_t i = 0; i < samples; ++i) {
    const auto dealt = [&](std::int64_t runs) {
      return std::floor(static_cast<double>(runs) * share);
    };
    const bool is_valid = dealt(i / run + 1) > dealt(i / run);
    (is_valid ? valid_ : train_).push_back(i);
  }
  shuffle(valid_, seed, kValidationStream);
}

void SampleOrder::shuffle_epoch(std::int64_t epoch) {
  shuffled_ = train_;
  shuffle(shuffled_, seed_, static_cast<std::uint32_t>(epoch));
  epoch_ = epoch;
}

std::int64_t SampleOrder::train_sample(std::int64_t n) {
  TT_CHECK(num_train() > 0, "no training sample");
  if (n / num_train() != epoch_) shuffle_epoch(n / num_train());
  return shuffled_[static_cast<std::size_t>(n % num_train())];
}

std::int64_t SampleOrder::valid_sample(std::int64_t n) const {
  TT_CHECK(num_valid() > 0, "no validation sample");
  return valid_[static_cast<std::size_t>(n % num_valid())];
}

}  // namespace tt::data

#include "tensor_tracer/nn/random.h"

#include <ATen/ATen.h>
#include <ATen/core/PhiloxRNGEngine.h>

#include <cmath>

namespace tt::nn {

at::Tensor dropout_factors(std::uint64_t key, const std::vector<std::int64_t>& streams,
                           std::int64_t per_stream, double rate) {
  const auto count = static_cast<std::int64_t>(streams.size());
  at::Tensor factors = at::empty({count, per_stream}, at::device(at::kCPU).dtype(at::kFloat));
  const auto threshold = static_cast<std::uint64_t>(std::ldexp(rate, 32));
  const auto scale = static_cast<float>(1.0 / (1.0 - rate));
  float* out = factors.data_ptr<float>();
  for (const std::int64_t stream : streams) {
    at::Philox4_32 engine(key, static_cast<std::uint64_t>(stream));
    for (std::int64_t i = 0; i < per_stream; ++i) *out++ = engine() < threshold ? 0.0f : scale;
  }
  return factors;
}

}  // namespace tt::nn

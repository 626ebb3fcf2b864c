#include "tensor_tracer/nn/random.h"

#include <ATen/ATen.h>
#include <ATen/core/PhiloxRNGEngine.h>

#include <cmath>

namespace tt::nn {

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15 + b;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

at::Tensor dropout_factors(std::uint64_t key, const std::vector<std::int64_t>& streams,
                           std::int64_t per_stream, double rate) {
  const auto count = static_cast<std::int64_t>(streams.size());
  at::Tensor factors = at::empty({count, per_stream}, at::kFloat);
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

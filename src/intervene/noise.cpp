#include "src/intervene/noise.h"

#include <ATen/ATen.h>
#include <ATen/core/PhiloxRNGEngine.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "tensor_tracer/base/hash.h"

namespace tt::intervene {
namespace {

using mesh::Interval;

constexpr std::int64_t kPerBlock = 4;  // numbers per step of Philox's counter

std::uint64_t key_of(const NoiseKind& kind, const PlaceRef& ref, const trace::ForwardScope& scope,
                     std::uint64_t run_seed) {
  std::uint64_t key = base::mix(run_seed, base::hash_of("noise"));
  for (const std::int64_t part : {kind.seed, std::int64_t{kind.is_uniform}, scope.step,
                                  static_cast<std::int64_t>(scope.phase),
                                  std::int64_t{scope.prompt_set}, std::int64_t{ref.place.layer}})
    key = base::mix(key, static_cast<std::uint64_t>(part));
  key = base::mix(key, base::hash_of(ref.name));
  // Each pass of a generation is over other tokens of the same rows.
  if (scope.phase == trace::Phase::kGeneration)
    key = base::mix(key, static_cast<std::uint64_t>(scope.batch));
  return key;
}

// The number of steps in [0, 1) that the dtype can represent exactly, so that rounding never gives
// 1.
double steps_below_one(at::ScalarType dtype) { return dtype == at::kBFloat16 ? 256.0 : 16777216.0; }

// Draws four neighbouring columns of a line.
void draw_block(at::Philox4_32& engine, bool is_uniform, double steps, float* four) {
  constexpr double kUnit = 1.0 / 4294967296.0;
  for (int i = 0; i < 4; i += 2) {
    const double a = engine() * kUnit;
    const double b = engine() * kUnit;
    if (is_uniform) {
      four[i] = static_cast<float>(std::floor(a * steps) / steps);
      four[i + 1] = static_cast<float>(std::floor(b * steps) / steps);
    } else {
      const double radius = std::sqrt(-2.0 * std::log1p(-a));
      const double angle = 2.0 * std::numbers::pi * b;
      four[i] = static_cast<float>(radius * std::cos(angle));
      four[i + 1] = static_cast<float>(radius * std::sin(angle));
    }
  }
}

float* draw_line(std::uint64_t key, std::uint64_t line, bool is_uniform, double steps,
                 const std::vector<Interval>& columns, float* out) {
  for (const Interval& held : columns) {
    at::Philox4_32 engine(key, line, static_cast<std::uint64_t>(held.begin / kPerBlock));
    float four[kPerBlock] = {};
    draw_block(engine, is_uniform, steps, four);
    for (std::int64_t column = held.begin; column < held.end; ++column) {
      if (column > held.begin && column % kPerBlock == 0)
        draw_block(engine, is_uniform, steps, four);
      *out++ = four[column % kPerBlock];
    }
  }
  return out;
}

// Indices along a dim: all indices, or the indices of this rank's shard.
std::vector<Interval> held(const PlaceRef& ref, int dim, int rank, int ranks, bool is_local) {
  if (!is_local || !ref.is_sharded() || ref.placement.dim != dim)
    return {{.end = ref.shape[static_cast<std::size_t>(dim)]}};
  return mesh::intervals_of_rank(ref.placement, rank, ranks);
}

std::vector<std::uint64_t> lines_of(const PlaceRef& ref, const trace::ForwardScope& scope, int rank,
                                    int ranks, bool is_local) {
  std::vector<std::uint64_t> lines;
  if (ref.is_weight) {
    for (const Interval& rows : held(ref, 0, rank, ranks, is_local))
      for (std::int64_t row = rows.begin; row < rows.end; ++row)
        lines.push_back(static_cast<std::uint64_t>(row));
    return lines;
  }
  const auto tokens = held(ref, 1, rank, ranks, is_local);
  for (std::int64_t row = 0; row < ref.shape[0]; ++row) {
    for (const Interval& part : tokens)
      for (std::int64_t token = part.begin; token < part.end; ++token)
        lines.push_back((static_cast<std::uint64_t>(scope.first_row + row) << 32U) +
                        static_cast<std::uint64_t>(token));
  }
  return lines;
}

}  // namespace

at::Tensor draw_noise(const NoiseKind& kind, const PlaceRef& ref, const trace::ForwardScope& scope,
                      std::uint64_t run_seed, int rank, int ranks, bool is_local) {
  const int last = static_cast<int>(ref.shape.size()) - 1;
  const auto columns = held(ref, last, rank, ranks, is_local);
  const auto lines = lines_of(ref, scope, rank, ranks, is_local);
  std::vector<std::int64_t> shape = ref.shape;
  shape.back() = 0;
  for (const Interval& at : columns) shape.back() += at.end - at.begin;
  const auto count = static_cast<std::int64_t>(lines.size());
  if (ref.is_weight)
    shape.front() = count;
  else
    shape[1] = shape[0] == 0 ? 0 : count / shape[0];
  at::Tensor noise = at::empty(shape, at::device(at::kCPU).dtype(at::kFloat));
  const std::uint64_t key = key_of(kind, ref, scope, run_seed);
  float* out = noise.mutable_data_ptr<float>();
  const double steps = steps_below_one(ref.dtype);
  for (const std::uint64_t line : lines)
    out = draw_line(key, line, kind.is_uniform, steps, columns, out);
  return noise.to(ref.dtype);
}

}  // namespace tt::intervene

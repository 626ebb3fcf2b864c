// What the kernels of a device compute, run on the CPU: the same bits as the kernels of the CPU, in
// whatever order the threads of a team run.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "src/trace/device/launcher.h"
#include "src/trace/device/stats_join.h"
#include "tensor_tracer/trace/reductions.h"
#include "tests/unit/trace/packing_fixture.h"

namespace tt::trace {
namespace {

using namespace packing;

/// Runs the threads of a team one after the other: forwards, backwards or mixed, in turn.
class MixedTeam {
 public:
  explicit MixedTeam(int size) : size_(size) {}
  int size() const { return size_; }
  template <typename Act>
  void each(const Act& act) {
    constexpr int kOddStep = 77;  // has no common divisor with a size
    ++turn_;
    for (int i = 0; i < size_; ++i)
      act(turn_ % 3 == 0 ? i : (turn_ % 3 == 1 ? size_ - 1 - i : i * kOddStep % size_));
  }
  template <typename T>
  T value(const T& shared) {
    return shared;
  }
  template <typename T>
  T add(T* number, T n) {
    const T before = *number;
    *number += n;
    return before;
  }
  void take_least(double* number, double x) { *number = x < *number ? x : *number; }
  void take_most(double* number, double x) { *number = x > *number ? x : *number; }

 private:
  const int size_;
  int turn_ = 0;
};

constexpr std::int64_t kTeams = 5;

template <typename Reducer>
void run_on_cpu(const device::PackJob& job, const Reducer& reducer, void* /*stream*/) {
  if (job.tail != nullptr) reducer.start(job.tail);
  for (std::int64_t first = 0; first < kTeams; ++first) {
    const auto shared = std::make_unique<typename Reducer::Shared>();
    std::memset(static_cast<void*>(shared.get()), 0xa5, sizeof *shared);
    MixedTeam team(Reducer::kThreads);
    device::pack_cells(team, job, reducer, *shared, first, kTeams);
  }
}

template <typename Join>
void join_on_cpu(const Join& join, void* /*stream*/) {
  const auto shared = std::make_unique<typename Join::Shared>();
  MixedTeam team(Join::kThreads);
  for (std::int64_t first = kTeams; first-- > 0;) {
    std::memset(static_cast<void*>(shared.get()), 0xa5, sizeof *shared);
    device::join_parts(team, join, *shared, first, kTeams);
  }
  std::memset(static_cast<void*>(shared.get()), 0xa5, sizeof *shared);
  join.finish(team, *shared);
}

/// While it lives, the kernels of CUDA run on the CPU.
class KernelsOnCpu {
 public:
  KernelsOnCpu() {
    device::has_kernels();  // sets those of the build, if it has some
    set<device::CopyReducer, device::FirstReducer, device::SumReducer, device::MeanReducer,
        device::AbsoluteMaxReducer, device::DotReducer, device::StatsReducer, device::TopReducer,
        device::OutlierReducer, device::SoftmaxReducer>();
    replace(device::JoinLauncher<device::StatsJoin<float>>::launch, join_on_cpu);
    replace(device::JoinLauncher<device::StatsJoin<double>>::launch, join_on_cpu);
  }
  ~KernelsOnCpu() {
    for (const auto& restore : restore_) restore();
  }
  KernelsOnCpu(const KernelsOnCpu&) = delete;

 private:
  template <template <typename> typename... Reducers>
  void set() {
    (set_elements<Reducers>(), ...);
  }
  template <template <typename> typename Reducer>
  void set_elements() {
    set_one<Reducer<float>>();
    set_one<Reducer<double>>();
    set_one<Reducer<device::BFloat16>>();
    set_one<Reducer<device::Half>>();
  }
  template <typename Reducer>
  void set_one() {
    replace(device::Launcher<Reducer>::launch, run_on_cpu<Reducer>);
  }
  template <typename Argument, typename... More>
  void replace(void (*&launch)(const Argument&, More...),
               std::type_identity_t<void (*)(const Argument&, More...)> by) {
    restore_.push_back([&launch, before = launch] { launch = before; });
    launch = by;
  }
  std::vector<std::function<void()>> restore_;
};

const std::vector<json> kCompressors = {
    {{"kind", "none"}},
    {{"kind", "tile"}, {"tiles", 1}},
    {{"kind", "tile"}, {"tiles", 7}, {"method", "sum"}},
    {{"kind", "tile"}, {"tiles", 96}},
    {{"kind", "tile"}, {"tiles", 96}, {"method", "absmax"}},
    {{"kind", "tile"}, {"tiles", 4}, {"method", "data.flatten(1).topk(3).values"}},
    {{"kind", "stats"}},
    {{"kind", "stats"}, {"range", {-3, 3}}, {"bins", 10}},
    {{"kind", "projection"}, {"vectors", {"a", "b"}}},
    {{"kind", "projection"}, {"vectors", {"a", "b"}}, {"cosine", true}},
    {{"kind", "topk"}, {"k", 5}},
    {{"kind", "topk"}, {"k", 90}},
    {{"kind", "topk"}, {"k", 5}, {"vocabulary", true}},
    {{"kind", "outliers"}, {"k", 5}},
    {{"kind", "top_tokens"}, {"columns", {5, 0, 77}}},
};

/// The part of a rank by the kernel of a device; what no kernel writes keeps the fill.
std::vector<double> part_of(const Packing& packing, at::DeviceType kernel, std::size_t rank,
                            const at::Tensor& local, std::span<const std::int64_t> targets) {
  const std::size_t bytes = packing.part_bytes(rank);
  std::vector<double> storage((bytes + 7) / 8, 0.5);
  if (bytes > 0) {
    packing.kernels().on(kernel)({1, targets}, rank, local,
                                 std::as_writable_bytes(std::span(storage)).first(bytes));
  }
  return storage;
}

void expect_same_parts(const at::Tensor& whole, const Layout& layout, int ranks,
                       const Traced& wanted) {
  const LogicalShape shape = shape_on(whole, layout, ranks, wanted);
  const bool is_double = whole.scalar_type() == at::kDouble;
  const auto packing = parsed(wanted.compressor, shape)->packing(shape, is_double);
  const std::vector<std::int64_t> targets = targets_of(shape);
  for (int rank = 0; rank < ranks; ++rank) {
    const at::Tensor own = part_on(whole, shape, rank);
    const at::Tensor local = at::cat({own, own}, -1).narrow(-1, 0, own.size(-1));
    const at::Tensor numbers = is_double ? local : local.to(at::kFloat);
    const auto on_cpu = part_of(*packing, at::kCPU, rank, numbers, targets);
    const auto on_device = part_of(*packing, at::kCUDA, rank, local, targets);
    EXPECT_EQ(std::memcmp(on_cpu.data(), on_device.data(), on_cpu.size() * 8), 0)
        << layout.name << ", " << whole.scalar_type() << ", " << whole.size(1) << " x "
        << whole.size(2) << ", rank " << rank << " of " << ranks << ", " << wanted.compressor;
  }
}

at::Tensor with_special_numbers(at::Tensor whole) {
  const std::int64_t lines = whole.size(1), columns = whole.size(2);
  whole[0][lines / 2][columns / 3] = -0.0;
  whole[1][lines - 1][columns - 1] = std::numeric_limits<double>::quiet_NaN();
  whole[1][0][columns / 2] = -std::numeric_limits<double>::infinity();
  whole[0][0].narrow(0, 0, 64) = -std::numeric_limits<double>::infinity();
  whole[0][lines - 1].narrow(0, 64, 64) = 0;
  return whole;
}

TEST(Device, KernelsHaveTheBitsOfTheCpu) {
  const KernelsOnCpu kernels;
  const Layout layouts[] = {{"plain", 2, {300}, 0}, {"grouped, 2 groups", 2, {128, 96, 96}, 2}};
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    for (const Layout& layout : layouts) {
      for (const std::int64_t lines : {3, 70}) {
        const at::Tensor whole = normal({2, lines, layout.size()}, dtype);
        const at::Tensor special = with_special_numbers(whole.clone());
        for (const json& compressor : kCompressors) {
          expect_same_parts(whole, layout, 1, {compressor});
          expect_same_parts(special, layout, 4, {compressor});
        }
      }
    }
  }
}

TEST(Device, KernelsHaveTheBitsOfTheCpuForShardsAndWindowsOfLines) {
  const KernelsOnCpu kernels;
  const at::Tensor whole = with_special_numbers(normal({2, 130, 192}, at::kFloat));
  for (const json& compressor : kCompressors) {
    for (const int ranks : {1, 4}) {
      expect_same_parts(whole, {"lines", 1, {130}, 0}, ranks, {compressor});
      expect_same_parts(whole, {"lines", 1, {130}, 0}, ranks, {compressor, 5, 121});
      expect_same_parts(whole.narrow(1, 0, 128), {"zigzag", 1, {128}, 0, true}, ranks,
                        {compressor, 5, 121});
      expect_same_parts(whole, {"columns", 2, {192}, 0}, ranks, {compressor, 5, 121});
      expect_same_parts(whole.narrow(1, 0, 128), {"columns of lines", 2, {192}, 0, false, 2}, ranks,
                        {compressor, 5, 121});
    }
  }
}

enum class JoinedBy { kDevice, kHost };

// Packs on every rank, and joins the parts with the kernel of a device and on the CPU.
void expect_same_join(const at::Tensor& whole, const Layout& layout, int ranks,
                      const Traced& wanted, JoinedBy by = JoinedBy::kDevice) {
  const LogicalShape shape = shape_on(whole, layout, ranks, wanted);
  const auto packing =
      parsed(wanted.compressor, shape)->packing(shape, whole.scalar_type() == at::kDouble);
  const DeviceJoin join = packing->device_join(at::kCPU);
  const std::string about = std::string(layout.name) + ", " + std::to_string(ranks) + " ranks, " +
                            wanted.compressor.dump();
  ASSERT_EQ(join != nullptr, by == JoinedBy::kDevice) << about;
  if (join == nullptr) return;
  std::vector<std::vector<double>> storage;
  std::vector<const std::byte*> parts;
  for (int rank = 0; rank < ranks; ++rank) {
    storage.push_back(part_of(*packing, at::kCPU, static_cast<std::size_t>(rank),
                              part_on(whole, shape, rank), {}));
    const auto* part = reinterpret_cast<const std::byte*>(storage.back().data());
    parts.push_back(storage.back().empty() ? nullptr : part);
  }
  at::Tensor expected = at::full(packing->shape(), 1, whole.options());
  at::Tensor joined = at::full(packing->shape(), 2, whole.options());
  packing->join({1}, parts, static_cast<std::byte*>(expected.mutable_data_ptr()));
  join(parts, static_cast<std::byte*>(joined.mutable_data_ptr()));
  EXPECT_TRUE(same_bits(joined, expected)) << about << "\n" << joined << "\n" << expected;
}

const json kStats = {{"kind", "stats"}};
const json kStatsOfRange = {{"kind", "stats"}, {"range", {-3, 3}}, {"bins", 100}};

TEST(Device, JoinsHaveTheBitsOfTheCpu) {
  const KernelsOnCpu kernels;
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const at::Tensor whole = normal({2, 384, 384}, dtype) * 3 + 1;
    const at::Tensor special = with_special_numbers(whole.clone());
    const at::Tensor nothing = at::full_like(whole, std::numeric_limits<double>::quiet_NaN());
    for (const at::Tensor& tensor : {whole, special, nothing}) {
      for (const json& compressor : {kStats, kStatsOfRange}) {
        for (const int ranks : {1, 2, 3}) {
          expect_same_join(tensor, {"columns", 2, {384}, 0}, ranks, {compressor});
          expect_same_join(tensor, {"columns", 2, {384}, 0}, ranks, {compressor, 5, 301});
          expect_same_join(tensor, {"lines", 1, {384}, 0}, ranks, {compressor});
          expect_same_join(tensor, {"lines", 1, {384}, 0}, ranks, {compressor, 70, 150});
          expect_same_join(tensor.narrow(1, 0, 256), {"columns of lines", 2, {384}, 0, false, 2},
                           2 * ranks, {compressor});
          if (ranks == 3)  // blocks of 64 lines
            expect_same_join(tensor, {"zigzag", 1, {384}, 0, true}, ranks, {compressor});
          expect_same_join(tensor, {"whole", 0, {384}, 0}, ranks, {compressor});
        }
        expect_same_join(tensor, {"grouped", 2, {256, 64, 64}, 1}, 2, {compressor});
      }
    }
  }
}

// More cells than a team loads at once, and one more.
TEST(Device, JoinsOfManyCellsHaveTheBitsOfTheCpu) {
  const KernelsOnCpu kernels;
  const at::Tensor wide = with_special_numbers(normal({2, 70, 64 * 66}, at::kFloat));
  for (const int ranks : {1, 2, 3})
    expect_same_join(wide, {"columns", 2, {64 * 66}, 0}, ranks, {kStats});
  const at::Tensor rows = with_special_numbers(normal({70, 65, 130}, at::kFloat));
  expect_same_join(rows, {"whole", 0, {130}, 0}, 1, {kStats});
  expect_same_join(normal({1, 1, 1}, at::kFloat), {"one number", 0, {1}, 0}, 1, {kStats});
}

TEST(Device, TheHostJoinsCellsThatNoRankHoldsWholeAndOtherCompressors) {
  const KernelsOnCpu kernels;
  const at::Tensor whole = normal({2, 300, 300}, at::kFloat);
  expect_same_join(whole, {"columns", 2, {300}, 0}, 2, {kStats}, JoinedBy::kHost);
  expect_same_join(whole, {"lines", 1, {300}, 0}, 2, {kStats}, JoinedBy::kHost);
  for (const json& compressor : kCompressors)
    if (compressor["kind"] != "stats")
      expect_same_join(whole, {"whole", 0, {300}, 0}, 1, {compressor}, JoinedBy::kHost);
  expect_same_join(normal({1, 1, 65 * 64}, at::kFloat), {"65 ranks", 2, {65 * 64}, 0}, 65, {kStats},
                   JoinedBy::kHost);
}

TEST(Device, ManyColumnsOverflowTheSpaceOfCandidates) {
  const KernelsOnCpu kernels;
  const at::Tensor rising = at::arange(0, 5000, at::kFloat).view({1, 1, 5000});
  at::Tensor special = normal({1, 1, 5000}, at::kFloat);
  for (std::int64_t i = 0; i < 12; ++i)
    special[0][0][17 + 400 * i] = std::numeric_limits<float>::quiet_NaN();
  special.narrow(-1, 1000, 3).fill_(std::numeric_limits<float>::infinity());
  special.narrow(-1, 2000, 3).fill_(-std::numeric_limits<float>::infinity());
  for (const at::Tensor& whole :
       {rising, rising.flip(-1), rising.remainder(7), normal({1, 1, 5000}, at::kFloat), special})
    for (const std::int64_t k : {1, 10, 256})
      for (const char* kind : {"topk", "outliers"})
        expect_same_parts(whole, {"whole", 0, {5000}, 0}, 1, {{{"kind", kind}, {"k", k}}});
}

TEST(Device, ElementsBecomeTheNumbersOfPyTorch) {
  const at::Tensor bits = at::arange(0, 65536, at::kInt).to(at::kUInt16);
  const auto expect = [&](at::ScalarType dtype, auto element) {
    const at::Tensor expected = bits.view(dtype).to(at::kFloat);
    for (std::int64_t i = 0; i < 65536; ++i) {
      element.bits = static_cast<std::uint16_t>(i);
      const float number = device::to_number(element), wanted = expected.const_data_ptr<float>()[i];
      if (std::isnan(wanted))
        ASSERT_TRUE(std::isnan(number)) << dtype << " " << i;
      else
        ASSERT_EQ(device::bits_of(number), device::bits_of(wanted)) << dtype << " " << i;
    }
  };
  expect(at::kBFloat16, device::BFloat16{});
  expect(at::kHalf, device::Half{});
}

TEST(Device, ExponentialsAreThoseOfTheCpu) {
  for (float x = -87; x <= 0; x += 0.0037f) {
    float y = 0;
    exponentials(&x, 1, &y);
    ASSERT_EQ(device::bits_of(device::exponential(x)), device::bits_of(y)) << x;
  }
}

}  // namespace
}  // namespace tt::trace

// Passes whose tensors are on a device that is behind. The device is the CPU, which works aside
// only when it is told.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "src/trace/device/launcher.h"
#include "src/trace/device/stats_join.h"
#include "tensor_tracer/comm/world.h"
#include "tensor_tracer/trace/tracer.h"
#include "tests/unit/trace/collector.h"
#include "tests/unit/trace/packing_fixture.h"

namespace tt::trace {
namespace {

using nlohmann::json;
using packing::same_bits;

class LateDevice final : public DeviceRuntime {
 public:
  at::Device device() const override { return at::kCPU; }
  std::unique_ptr<DeviceEvent> run_aside(const std::function<void()>& body) override {
    given_.push_back(std::make_shared<std::function<void()>>(body));
    return std::make_unique<Event>(*this, given_.back());
  }
  at::Tensor host_memory(std::int64_t bytes) const override {
    return at::empty({bytes}, at::kByte);
  }
  /// Does what it was given, in this order.
  void catch_up() {
    while (!given_.empty()) do_next();
  }

 private:
  using Work = std::shared_ptr<std::function<void()>>;
  class Event final : public DeviceEvent {
   public:
    Event(LateDevice& device, Work work) : device_(device), work_(std::move(work)) {}
    bool is_done() const override { return *work_ == nullptr; }
    void wait() const override {
      while (!is_done()) device_.do_next();
    }

   private:
    LateDevice& device_;
    const Work work_;
  };

  void do_next() {
    const Work work = given_.front();
    given_.pop_front();
    std::exchange(*work, nullptr)();
  }

  std::deque<Work> given_;
};

// A pass whose values are `number`, and whose gradients are twice as large.
void run_pass(Tracer& tracer, std::int64_t step, double number) {
  Pass pass = tracer.begin({.step = step});
  const at::Tensor y = number * at::ones({4, 5, 64}).requires_grad_(true);
  pass.capture(key_of("HiddenStates", 1), y);
  pass.end_forward();
  (y * 2 * number).sum().backward();
  pass.end_backward();
  pass.finish();
}

std::shared_ptr<const Plan> values_and_gradients(const PlanContext& about) {
  const json raw = {{"kind", "none"}};
  const json value = {{"point", "HiddenStates"}, {"compressor", raw}};
  const json gradient = {{"point", "HiddenStates"}, {"compressor", raw}, {"direction", "gradient"}};
  return plan_of({{"entries", {value, gradient}}}, about);
}

void expect_records(const Collector& collector, int steps) {
  ASSERT_EQ(collector.all.size(), static_cast<std::size_t>(2 * steps));
  for (int i = 0; i < 2 * steps; ++i) {
    const auto& record = collector.all[static_cast<std::size_t>(i)];
    const double number = i / 2 + 1;
    EXPECT_EQ(record.header.step, static_cast<std::uint64_t>(i / 2 + 1));
    EXPECT_TRUE(record.values.eq(i % 2 == 0 ? number : 2 * number).all().item<bool>()) << i;
  }
}

TEST(DevicePass, SendsItsRecordsWhenTheDeviceIsReady) {
  Collector collector;
  const PlanContext about = context(1, 8);
  const auto device = std::make_shared<LateDevice>();
  Tracer tracer(about, {}, comm::ProcessGroup(), &collector, device);
  tracer.set_plan(values_and_gradients(about));
  for (int step = 1; step <= 3; ++step) run_pass(tracer, step, step);
  tracer.deliver();
  EXPECT_TRUE(collector.all.empty()) << "nobody waits for the device";
  device->catch_up();
  tracer.deliver();
  expect_records(collector, 3);
  EXPECT_THAT(collector.events, testing::IsEmpty());
}

TEST(DevicePass, WaitsForTheDeviceIfManyAreOpenAndAtTheEnd) {
  Collector collector;
  const PlanContext about = context(1, 8);
  Tracer tracer(about, {}, comm::ProcessGroup(), &collector, std::make_shared<LateDevice>());
  tracer.set_plan(values_and_gradients(about));
  constexpr int kSteps = static_cast<int>(Tracer::kMaxEnded) + 2;
  for (int step = 1; step <= kSteps; ++step) run_pass(tracer, step, step);
  expect_records(collector, 2);
  tracer.deliver_all();
  expect_records(collector, kSteps);
}

// Values of all ranks with a device, or without one.
at::Tensor gathered(bool has_device) {
  Collector collector;
  comm::run_local(2, [&](const comm::ProcessGroup& group) {
    const PlanContext about = context(2, 8);
    const auto device = has_device ? std::make_shared<LateDevice>() : nullptr;
    Tracer tracer(about, {}, group, group.rank() == 0 ? &collector : nullptr, device);
    const json entry = {{"point", "MLP1"}, {"compressor", {{"kind", "none"}}}};
    tracer.set_plan(plan_of({{"entries", {entry}}}, about));
    Pass pass = tracer.begin({.step = 1});
    pass.capture(key_of("MLP1", 1),
                 at::arange(0, 4 * 5 * 168, at::kFloat).view({4, 5, 168}) + 10000 * group.rank());
    pass.end_forward();
    pass.finish();
    if (has_device) device->catch_up();
    tracer.deliver();
  });
  EXPECT_EQ(collector.all.size(), 1U);
  return collector.all.at(0).values;
}

TEST(DevicePass, GathersThePartsOfAllRanks) {
  const at::Tensor expected = gathered(false);
  EXPECT_GE(expected.max().item<float>(), 10000) << "numbers of rank 1";
  EXPECT_TRUE(at::equal(gathered(true), expected));
}

TEST(DevicePass, TellsRankZeroWhatFailedOnAnotherRank) {
  Collector collector;
  comm::run_local(2, [&](const comm::ProcessGroup& group) {
    const PlanContext about = context(2, 8);
    Tracer tracer(about, {}, group, group.rank() == 0 ? &collector : nullptr,
                  std::make_shared<LateDevice>());
    tracer.set_plan(plan_of({{"entries", {{{"point", "MLP1"}}}}}, about));
    Pass pass = tracer.begin({.step = 1});
    pass.capture_derived(key_of("MLP1", 1), {4, 5, 168}, at::kFloat, [&] {
      if (group.rank() == 1) throw std::runtime_error("no numbers");
      return at::ones({4, 5, 168});
    });
    pass.end_forward();
    pass.finish();
    tracer.deliver_all();
  });
  EXPECT_TRUE(collector.all.empty());
  ASSERT_EQ(collector.events.size(), 1U);
  EXPECT_THAT(collector.events[0].second.dump(), testing::HasSubstr("tensor rank 1: no numbers"));
}

int joins = 0;  // by the kernels below

template <typename Join>
void join_and_count(const Join& join, void* /*stream*/) {
  ++joins;
  device::join_on_host(join);
}

/// While it lives, a device joins; it is the CPU.
class JoinsOnDevice {
 public:
  JoinsOnDevice() : before_(Launcher::launch) {
    device::has_kernels();
    Launcher::launch = join_and_count;
    joins = 0;
  }
  ~JoinsOnDevice() { Launcher::launch = before_; }
  JoinsOnDevice(const JoinsOnDevice&) = delete;

 private:
  using Launcher = device::JoinLauncher<device::StatsJoin<float>>;
  const Launcher::Launch before_;
};

const json kStats = {{"kind", "stats"}};

// Entries that a device joins, between others.
Collector joined_and_other_records(bool has_device) {
  Collector collector;
  comm::run_local(2, [&](const comm::ProcessGroup& group) {
    const PlanContext about = context(2, 8, 256);
    const auto device = has_device ? std::make_shared<LateDevice>() : nullptr;
    Tracer tracer(about, {}, group, group.rank() == 0 ? &collector : nullptr, device);
    const json raw = {{"kind", "none"}};
    tracer.set_plan(plan_of({{"entries",
                              {{{"point", "MLP1"}, {"compressor", kStats}},
                               {{"point", "MLP1"}, {"compressor", raw}},
                               {{"point", "HiddenStates"}, {"compressor", kStats}},
                               {{"point", "HiddenStates"}, {"compressor", raw}}}}},
                            about));
    for (int step = 1; step <= 3; ++step) {
      Pass pass = tracer.begin({.step = step});
      for (const int layer : {1, 2}) {
        const at::Tensor numbers = at::arange(0, 4 * 5 * 256, at::kFloat).view({4, 5, 256});
        const float scale = static_cast<float>(step * layer * (group.rank() + 1));
        pass.capture(key_of("MLP1", layer), numbers.mul(scale).sin());
        pass.capture(key_of("HiddenStates", layer), numbers.narrow(2, 0, 64) * step);
      }
      pass.end_forward();
      pass.finish();
    }
    tracer.deliver_all();
  });
  EXPECT_THAT(collector.events, testing::IsEmpty());
  return collector;
}

TEST(DevicePass, SendsWhatTheDeviceJoinsAndWhatTheHostJoins) {
  const Collector expected = joined_and_other_records(false);
  const JoinsOnDevice kernels;
  const Collector actual = joined_and_other_records(true);
  EXPECT_EQ(joins, 3 * 2 * 2) << "stats of three steps, two layers, two points";
  ASSERT_EQ(expected.all.size(), 3U * 2 * 4);
  ASSERT_EQ(actual.all.size(), expected.all.size());
  for (std::size_t i = 0; i < expected.all.size(); ++i) {
    EXPECT_EQ(actual.all[i].header.entry, expected.all[i].header.entry);
    EXPECT_TRUE(same_bits(actual.all[i].values, expected.all[i].values)) << i;
  }
}

TEST(DevicePass, TellsRankZeroWhatFailedAlthoughTheDeviceJoins) {
  const JoinsOnDevice kernels;
  Collector collector;
  comm::run_local(2, [&](const comm::ProcessGroup& group) {
    const PlanContext about = context(2, 8, 256);
    Tracer tracer(about, {}, group, group.rank() == 0 ? &collector : nullptr,
                  std::make_shared<LateDevice>());
    const json raw = {{"kind", "none"}};
    tracer.set_plan(plan_of({{"entries",
                              {{{"point", "MLP1"}, {"compressor", kStats}},
                               {{"point", "MLP1"}, {"compressor", kStats}, {"layers", "2"}},
                               {{"point", "MLP1"}, {"compressor", raw}}}}},
                            about));
    Pass pass = tracer.begin({.step = 1});
    pass.capture_derived(key_of("MLP1", 1), {4, 5, 256}, at::kFloat, [&] {
      if (group.rank() == 1) throw std::runtime_error("no numbers");
      return at::ones({4, 5, 256});
    });
    pass.capture(key_of("MLP1", 2), at::ones({4, 5, 256}));
    pass.end_forward();
    pass.finish();
    tracer.deliver_all();
  });
  EXPECT_EQ(joins, 3) << "of entry 0 in both layers, of entry 1 in one";
  ASSERT_EQ(collector.events.size(), 2U) << "of entries 0 and 2";
  for (const auto& [event, params] : collector.events)
    EXPECT_THAT(params.dump(), testing::HasSubstr("tensor rank 1: no numbers"));
  ASSERT_EQ(collector.all.size(), 1U);
  EXPECT_EQ(collector.all[0].header.entry, 1U);
  EXPECT_EQ(collector.all[0].values[0][1].item<float>(), 1) << "the mean";
}

TEST(DevicePass, SendsNoGradientThatTheBackwardDidNotReach) {
  Collector collector;
  const PlanContext about = context(1, 8);
  Tracer tracer(about, {}, comm::ProcessGroup(), &collector, std::make_shared<LateDevice>());
  tracer.set_plan(values_and_gradients(about));
  Pass pass = tracer.begin({.step = 1});
  pass.capture(key_of("HiddenStates", 1), at::ones({4, 5, 64}).requires_grad_(true));
  pass.end_forward();
  pass.end_backward();
  pass.finish();
  tracer.deliver_all();
  EXPECT_EQ(collector.all.size(), 1U) << "the value";
}

TEST(DevicePass, ReportsWhatFailedAndSendsTheRest) {
  Collector collector;
  const PlanContext about = context(1, 8);
  Tracer tracer(about, {}, comm::ProcessGroup(), &collector, std::make_shared<LateDevice>());
  tracer.set_plan(
      plan_of({{"entries", {{{"point", "MLP2"}}, {{"point", "HiddenStates"}}}}}, about));
  Pass pass = tracer.begin({.step = 1});
  pass.capture_derived(key_of("MLP2", 1), {4, 5, 64}, at::kFloat,
                       []() -> at::Tensor { throw std::runtime_error("no numbers"); });
  pass.capture(key_of("HiddenStates", 1), at::ones({4, 5, 64}));
  pass.end_forward();
  pass.finish();
  tracer.deliver_all();
  ASSERT_EQ(collector.all.size(), 1U);
  EXPECT_EQ(collector.all[0].header.entry, 1U);
  ASSERT_EQ(collector.events.size(), 1U);
  EXPECT_THAT(collector.events[0].second.dump(), testing::HasSubstr("no numbers"));
}

}  // namespace
}  // namespace tt::trace

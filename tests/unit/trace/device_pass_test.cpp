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

#include "tensor_tracer/comm/world.h"
#include "tensor_tracer/trace/tracer.h"
#include "tests/unit/trace/collector.h"

namespace tt::trace {
namespace {

using nlohmann::json;

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

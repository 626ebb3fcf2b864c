// What a tracer costs besides time: allocations and messages, counted.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <new>

#include "tensor_tracer/comm/world.h"
#include "tensor_tracer/intervene/engine.h"
#include "tensor_tracer/model/gpt.h"
#include "tensor_tracer/trace/tracer.h"
#include "tests/unit/comm/counting_group.h"

namespace {

thread_local std::size_t allocations = 0;

void* allocate(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

// Every `new` of this program, libtorch's included, is counted by the thread that asks for it.
void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new[](std::size_t bytes) { return allocate(bytes); }
// What these give is freed below: with the library's own, memory of one kind would be freed as
// another.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace tt::trace {
namespace {

constexpr std::int64_t kLayers = 3;

PlanContext context_of(const comm::ProcessGroup& group) {
  config::ModelConfig model;
  model.num_layers = kLayers;
  PlanContext about;
  about.places = model::describe_model(model, group.size()).places();
  about.tensor_ranks = group.size();
  about.micro_batch_size = 2;
  about.seq_length = 4;
  return about;
}

points::PlaceKey key_of(const char* name, int layer) {
  static const PlanContext one_rank = context_of(comm::ProcessGroup());
  return one_rank.places->key(name, layer);
}

class Silent : public TraceSink {
 public:
  void send_records(std::string) noexcept override {}
  void send_event(std::string_view, nlohmann::json) noexcept override {}
};

/// Steps of a training loop that does nothing but pass its trace points.
class Loop {
 public:
  explicit Loop(const comm::ProcessGroup& group)
      : group_(comm::make_counting(group, traffic)),
        context_(context_of(group)),
        tracer(context_, {1, {group.rank(), 0, 0}}, group_, group.rank() == 0 ? &sink_ : nullptr) {
    const auto& point = context_.places->rows()[key_of("HiddenStates", 1).row];
    hidden_ = at::ones({2, 4, point.features}).requires_grad_(true);
  }

  void step(std::int64_t number) {
    Pass pass = tracer.begin({number, 0, 0, Phase::kTrain});
    for (int layer = 1; layer <= kLayers; ++layer) {
      pass.capture(key_of("HiddenStates", layer), hidden_);
      pass.capture_derived(key_of("RawAttentionScore", layer), {2, 4, 4, 4}, at::kFloat, [] {
        return at::zeros({2, 4, 4, 4});
      });
      if (pass.rows_wanted(key_of("RawAttentionScore", layer), 2) > 0) ++rows_asked_for;
    }
    pass.end_forward();
    pass.end_backward();
    pass.finish();
  }

  void watch(const char* entries) {
    auto plan = parse_plan(nlohmann::json::parse(entries), context_, 1);
    ASSERT_TRUE(plan) << to_string(plan.error());
    tracer.set_plan(std::make_shared<const Plan>(std::move(plan).value()));
  }

  std::shared_ptr<comm::Traffic> traffic = std::make_shared<comm::Traffic>();
  int rows_asked_for = 0;

 private:
  comm::ProcessGroup group_;
  PlanContext context_;
  Silent sink_;
  at::Tensor hidden_;

 public:
  Tracer tracer;
};

TEST(IdleTracer, AllocatesNothingAndSendsNothing) {
  comm::run_local(
      2,
      [](const comm::ProcessGroup& group) {
        Loop loop(group);
        const std::size_t before = allocations;
        for (std::int64_t number = 1; number <= 10; ++number) loop.step(number);
        EXPECT_EQ(allocations - before, 0U);
        EXPECT_EQ(loop.traffic->messages(), 0);
        EXPECT_EQ(loop.rows_asked_for, 0);
      });
}

TEST(IdleTracer, StepsThatAPlanLeavesOutCostAsLittle) {
  comm::run_local(
      2,
      [](const comm::ProcessGroup& group) {
        Loop loop(group);
        loop.watch(R"({"entries": [{"point": "HiddenStates", "every": 100}]})");
        const std::size_t before = allocations;
        for (std::int64_t number = 1; number <= 10; ++number) loop.step(number);
        EXPECT_EQ(allocations - before, 0U);
        EXPECT_EQ(loop.traffic->messages(), 0);
      });
}

TEST(IdlePrograms, OfOtherStepsAllocateNothing) {
  const comm::ProcessGroup one;
  intervene::Context context;
  context.model.places = context_of(one).places;
  context.micro_batch_size = 2;
  context.seq_length = 4;
  const auto owner = intervene::make_engine(context, one, one);
  trace::InterventionHooks& engine = *owner;
  const std::string program = "layers[1].output *= 2\nwhen(steps=\"100\")";
  ASSERT_TRUE(engine.request(protocol::ApplyProgram{.name = "p", .program = program}, 1).ok());
  ASSERT_TRUE(engine.prepare(engine.take_changes(1)).ok());
  engine.install(true);
  const at::Tensor tokens = at::zeros({2, 4}, at::kLong);
  const std::size_t before = allocations;
  for (std::int64_t number = 1; number <= 10; ++number)
    EXPECT_EQ(engine.begin({.step = number}, tokens), nullptr);
  EXPECT_EQ(allocations - before, 0U);
  EXPECT_NE(engine.begin({.step = 100}, tokens), nullptr);
}

TEST(WatchingTracer, SendsOneGatherForAllPointsOfAForward) {
  comm::run_local(
      2,
      [](const comm::ProcessGroup& group) {
        Loop loop(group);
        loop.watch(R"({"entries": [{"point": "HiddenStates"}, {"point": "RawAttentionScore"},
                               {"point": "HiddenStates", "compressor": {"kind": "stats"}}]})");
        for (std::int64_t number = 1; number <= 5; ++number) loop.step(number);
        EXPECT_EQ(loop.traffic->gathers, 5);
        EXPECT_EQ(loop.traffic->messages(), 10) << "and the comparison of the layouts";
        EXPECT_EQ(loop.rows_asked_for, 5 * kLayers);
      });
}

}  // namespace
}  // namespace tt::trace

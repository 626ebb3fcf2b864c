// Values of a program live from their line to their last user, and no longer.

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tensor_tracer/intervene/engine.h"
#include "tests/unit/intervene/made_up_forward.h"

namespace tt::intervene {
namespace {

/// Counts the bytes of tensors that are alive, of this thread's making.
class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    live += bytes;
    auto* held = new Held{c10::GetDefaultCPUAllocator()->allocate(bytes), bytes, this};
    return {held->data.get(), held, &release, c10::kCPU};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  std::size_t live = 0;

 private:
  struct Held {
    c10::DataPtr data;
    std::size_t bytes;
    CountingAllocator* of;
  };
  static void release(void* held) {
    auto* own = static_cast<Held*>(held);
    own->of->live -= own->bytes;
    delete own;
  }
};

// Of which tensors that outlive the test may still speak.
CountingAllocator& counting() {
  static auto* allocator = new CountingAllocator();
  return *allocator;
}

/// Bytes that stay alive behind each place of a forward in which a program is in force.
class Forward {
 public:
  explicit Forward(const std::string& program)
      : before_(c10::GetAllocator(c10::kCPU)),
        engine_(make_engine(made_up_context(8, comm::ProcessGroup(), at::kFloat),
                            comm::ProcessGroup(), comm::ProcessGroup())) {
    const auto answer =
        engine_->request(protocol::ApplyProgram{.name = "p", .program = program}, 1);
    EXPECT_TRUE(answer) << to_string(answer.error());
    EXPECT_TRUE(engine_->prepare(engine_->take_changes(1)));
    engine_->install(true);
    c10::SetAllocator(c10::kCPU, &counting(), 100);
    pass_ = engine_->begin({3, 0, 0, trace::Phase::kTrain}, at::zeros({4, 5}, at::kLong));
    at_start_ = counting().live;
  }
  ~Forward() {
    pass_->end();
    c10::SetAllocator(c10::kCPU, before_, 100);
  }
  Forward(const Forward&) = delete;
  Forward& operator=(const Forward&) = delete;

  /// In tensors of [4, 5, 64] floats.
  double alive_behind(int layer) {
    const at::NoGradGuard no_grad;
    at::Tensor x = at::ones({4, 5, 64});
    x = pass_->at_point(hidden_states(layer), x);
    x = at::Tensor();
    return static_cast<double>(counting().live - at_start_) / (4 * 5 * 64 * sizeof(float));
  }

 private:
  c10::Allocator* const before_;
  const std::unique_ptr<trace::InterventionHooks> engine_;
  std::unique_ptr<trace::InterventionPass> pass_;
  std::size_t at_start_ = 0;
};

TEST(Values, AreFreedBehindTheirLastUser) {
  Forward forward(
      "h = layers[1].output.exp()\n"
      "layers[1].output = h\n"
      "far = layers[1].output + 1\n"
      "layers[2].output = far * 2\n"
      "layers[3].output *= 3");
  EXPECT_EQ(forward.alive_behind(1), 1.0) << "far waits for layer 2, h for nobody";
  EXPECT_EQ(forward.alive_behind(2), 0.0);
  EXPECT_EQ(forward.alive_behind(3), 0.0);
}

TEST(Values, ThatNobodyUsesAreNotComputed) {
  Forward forward("unused = layers[1].output.exp()\nlayers[2].output *= 2");
  EXPECT_EQ(forward.alive_behind(1), 0.0);
}

TEST(Values, ThatAreReadBackAreKeptForTheNextForward) {
  Forward forward(
      "save(layers[1].output.exp(), \"e\", send=False)\n"
      "layers[2].output = saved(\"e\")");
  EXPECT_EQ(forward.alive_behind(1), 1.0);
  EXPECT_EQ(forward.alive_behind(2), 1.0);
}

TEST(Values, ThatAreSavedAndNotReadBackAreNotKept) {
  Forward forward("save(layers[1].output.exp(), \"e\", send=False)");
  EXPECT_EQ(forward.alive_behind(1), 0.0);
}

}  // namespace
}  // namespace tt::intervene

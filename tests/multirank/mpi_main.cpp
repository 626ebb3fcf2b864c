// mpi_tests: the shared suite with processes as ranks. Rank 0 reports; the others only print what
// failed; a failure on any rank fails all. --plain-mpi: without shared memory, as between nodes.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>

#include "tensor_tracer/base/check.h"
#include "tensor_tracer/comm/world.h"
#include "tests/unit/comm/group_suite.h"

namespace tt::comm {
namespace {

const World* world = nullptr;  // set by main while there is one

/// The sizes that this job can offer, known before MPI_Init as the launcher tells them.
int launched_size() {
  const auto launch = detect_launch(process_environment());
  return launch.ok() ? launch.value().world_size : 1;
}

class FailurePrinter final : public testing::EmptyTestEventListener {
 public:
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d: %s:%d: %s\n", world->group().rank(), result.file_name(),
                 result.line_number(), result.message());
  }
};

int run_tests(const ProcessGroup& group) {
  if (group.rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter);  // owned by GoogleTest
  }
  at::Tensor result = at::tensor({RUN_ALL_TESTS()}, at::kInt);
  group.all_reduce(result, ReduceOp::kMax);
  return result.item<int>();
}

/// A group outlives its World: it must neither free MPI's objects nor use them.
int use_after_the_end(const ProcessGroup& group) {
  if (group.size() == 1) return 0;
  try {
    group.barrier();
  } catch (const base::CheckError&) {
    return 0;
  }
  std::fprintf(stderr, "a barrier after the end of the world passed\n");
  return 1;
}

}  // namespace

void run_ranks(int, const std::function<void(const ProcessGroup&)>& body) {
  at::set_num_threads(1);
  try {
    body(world->group().split(0, 0));
  } catch (const std::exception& error) {
    // The other ranks wait for this one and would never end.
    std::fprintf(stderr, "rank %d: %s\n", world->group().rank(), error.what());
    world->abort(1);
  }
}

INSTANTIATE_TEST_SUITE_P(Mpi, GroupSuite, testing::Values(launched_size()),
                         testing::PrintToStringParamName());

}  // namespace tt::comm

int main(int argc, char** argv) {
  using namespace tt::comm;
  testing::InitGoogleTest(&argc, argv);
  const auto launch = detect_launch(process_environment());
  if (!launch.ok()) {
    std::fprintf(stderr, "%s\n", to_string(launch.error()).c_str());
    return 2;
  }
  try {
    const bool plain = argc > 1 && std::strcmp(argv[1], "--plain-mpi") == 0;
    std::optional<World> owner(std::in_place, launch.value(),
                               WorldOptions{.shared_memory = !plain});
    world = &*owner;
    const ProcessGroup survivor = owner->group().split(0, 0);
    const int failed = run_tests(owner->group());
    world = nullptr;
    owner.reset();
    return failed != 0 ? failed : use_after_the_end(survivor);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}

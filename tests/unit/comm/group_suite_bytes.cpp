// The rest of the suite: what does not depend on a dtype.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "tensor_tracer/base/check.h"
#include "tests/unit/comm/group_suite.h"

namespace tt::comm {
namespace {

using Bytes = std::vector<std::byte>;

/// Bytes that tell rank and round.
Bytes letter(int rank, std::size_t length, int round) {
  Bytes bytes(length);
  for (std::size_t i = 0; i < length; ++i)
    bytes[i] = static_cast<std::byte>(i * 3 + 17 * rank + 5 * round);
  return bytes;
}

std::int64_t now_ns() {
  // The monotonic clock, one for all processes of the machine.
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

/// A whole gather_bytes of ragged letters, one of them empty, with other work in between.
void exchange_letters(const ProcessGroup& group, int root, std::size_t unit, int round) {
  std::vector<std::size_t> counts;
  Bytes expected;
  for (int rank = 0; rank < group.size(); ++rank) {
    counts.push_back(unit * ((rank + round) % 4));
    const Bytes part = letter(rank, counts.back(), round);
    expected.insert(expected.end(), part.begin(), part.end());
  }
  const Bytes input = letter(group.rank(), counts[group.rank()], round);
  Bytes output(group.rank() == root ? expected.size() : 0);
  Work work = group.gather_bytes(host_bytes(input), counts, host_bytes(output), root);
  at::Tensor busy = at::ones({100003});
  group.all_reduce(busy);
  work.wait();
  EXPECT_TRUE(work.test());
  EXPECT_TRUE(output == (group.rank() == root ? expected : Bytes()));
  EXPECT_EQ(busy[100002].item<float>(), static_cast<float>(group.size()));
}

TEST_P(GroupSuite, GatherBytes) {
  run([](const ProcessGroup& group) {
    for (int round = 0; round < 4; ++round)
      exchange_letters(group, round % group.size(), round == 2 ? 300007 : 11, round);
  });
}

TEST_P(GroupSuite, GatherAllBytesInAnyNumberOfChunks) {
  run([](const ProcessGroup& group) {
    for (const std::size_t most : {1, 7, 64, 1000, 1 << 20}) {
      for (int round = 0; round < 4; ++round) {
        std::vector<std::size_t> counts;
        Bytes expected;
        for (int rank = 0; rank < group.size(); ++rank) {
          counts.push_back(11U * static_cast<std::size_t>((rank + round) % 4));
          const Bytes part = letter(rank, counts.back(), round);
          expected.insert(expected.end(), part.begin(), part.end());
        }
        const int root = round % group.size();
        const auto own = counts[static_cast<std::size_t>(group.rank())];
        Bytes output(group.rank() == root ? expected.size() : 0);
        const Bytes input = letter(group.rank(), own, round);
        group.gather_all_bytes(host_bytes(input), counts, host_bytes(output), root, most);
        EXPECT_TRUE(output == (group.rank() == root ? expected : Bytes())) << most;
      }
    }
  });
}

TEST_P(GroupSuite, TheRootMayWaitForBytesBeforeItJoinsACollective) {
  run([](const ProcessGroup& group) {
    const std::size_t length = 1 << 20;
    const std::vector<std::size_t> counts(group.size(), length);
    const Bytes input = letter(group.rank(), length, 0);
    Bytes output(group.rank() == 0 ? length * group.size() : 0);
    Work work = group.gather_bytes(host_bytes(input), counts, host_bytes(output), 0);
    if (group.rank() == 0) work.wait();
    at::Tensor tensor = at::ones({1 << 20});
    group.all_reduce(tensor);
    work.wait();
    EXPECT_EQ(tensor[17].item<float>(), static_cast<float>(group.size()));
  });
}

TEST_P(GroupSuite, BroadcastBytes) {
  run([](const ProcessGroup& group) {
    for (const std::size_t length : {0, 1, 64, 300007}) {
      for (int root = 0; root < group.size(); ++root) {
        Bytes first = letter(group.rank(), length, 0);
        Bytes second = letter(group.rank(), length, 1);
        Work first_work = group.broadcast_bytes(host_bytes(first), root);
        Work second_work = group.broadcast_bytes(host_bytes(second), root);
        second_work.wait();
        first_work.wait();
        EXPECT_TRUE(first == letter(root, length, 0));
        EXPECT_TRUE(second == letter(root, length, 1));
      }
    }
  });
}

TEST_P(GroupSuite, NobodyLeavesABarrierBeforeAllEntered) {
  run([](const ProcessGroup& group) {
    at::Tensor times = at::empty({group.size(), 2}, at::kLong);
    if (group.rank() == group.size() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const std::int64_t entered = now_ns();
    group.barrier();
    const std::int64_t left = now_ns();
    group.all_gather(at::tensor({entered, left}, at::kLong), times);
    EXPECT_GE(times.select(1, 1).min().item<std::int64_t>(),
              times.select(1, 0).max().item<std::int64_t>());
  });
}

TEST_P(GroupSuite, Split) {
  run([](const ProcessGroup& group) {
    // Odd and even ranks, in falling order.
    const int color = group.rank() % 2;
    const ProcessGroup part = group.split(color, -group.rank());
    const int expected_size = (group.size() + 1 - color) / 2;
    EXPECT_EQ(part.size(), expected_size);
    EXPECT_EQ(part.rank(), expected_size - 1 - group.rank() / 2);
    at::Tensor ranks = at::empty({part.size()}, at::kLong);
    part.all_gather(at::tensor({group.rank()}, at::kLong), ranks);
    for (int i = 0; i < part.size(); ++i)
      EXPECT_EQ(ranks[i].item<int>(), color + 2 * (part.size() - 1 - i));
    at::Tensor sum = at::ones({100003});
    part.all_reduce(sum);
    EXPECT_EQ(sum[1].item<float>(), static_cast<float>(part.size()));
    // Equal keys keep the order, and the parts of a part work.
    const ProcessGroup again = part.split(0, 0).split(0, 0);
    EXPECT_EQ(again.rank(), part.rank());
    again.barrier();
    group.barrier();
  });
}

TEST_P(GroupSuite, WrongSizesAreChecks) {
  run([](const ProcessGroup& group) {
    at::Tensor input = at::ones({4});
    at::Tensor small = at::ones({group.size() * 4 - 1});
    at::Tensor other_dtype = at::ones({group.size() * 4}, at::kDouble);
    at::Tensor strided = at::ones({4, 4}).t();
    at::Tensor undefined;
    const std::vector<std::size_t> counts(group.size(), 4);
    const at::Tensor bytes = at::zeros({4}, at::kByte);
    const at::Tensor all_bytes = at::zeros({group.size() * 4}, at::kByte);
    const int own = group.rank();
    EXPECT_THROW(group.all_gather(input, small), base::CheckError);
    EXPECT_THROW(group.all_gather(input, other_dtype), base::CheckError);
    EXPECT_THROW(group.reduce_scatter(small, input), base::CheckError);
    EXPECT_THROW(group.all_reduce(strided), base::CheckError);
    EXPECT_THROW(group.all_reduce(undefined), base::CheckError);
    EXPECT_THROW(group.broadcast(input, group.size()), base::CheckError);
    EXPECT_THROW(group.broadcast(input, -1), base::CheckError);
    EXPECT_THROW(group.send(input, group.rank()), base::CheckError);
    EXPECT_THROW(group.receive(input, group.rank()), base::CheckError);
    EXPECT_THROW(group.split(-1, 0), base::CheckError);
    EXPECT_THROW(group.gather_bytes(at::zeros({5}, at::kByte), counts, all_bytes, 0),
                 base::CheckError);
    EXPECT_THROW(group.gather_bytes(bytes, {}, all_bytes, 0), base::CheckError);
    EXPECT_THROW(group.gather_bytes(bytes, counts, all_bytes.slice(0, 1), own), base::CheckError);
    EXPECT_THROW(group.gather_bytes(bytes.view(at::kChar), counts, all_bytes, own),
                 base::CheckError);
    EXPECT_THROW(group.gather_bytes(all_bytes.slice(0, 0, 4), counts, all_bytes, own),
                 base::CheckError);
    EXPECT_THROW(group.broadcast_bytes(input, own), base::CheckError);
    if (group.size() > 1) {
      at::Tensor whole = at::ones({group.size(), 4});
      at::Tensor wrong_part = whole[(group.rank() + 1) % group.size()];
      EXPECT_THROW(group.all_gather(wrong_part, whole), base::CheckError);
    }
  });
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const base::CheckError& error) {
    return error.what();
  }
  return "";
}

TEST_P(GroupSuite, ADeviceThatIsNotCarriedIsNamedWithTheBackend) {
  run([](const ProcessGroup& group) {
    EXPECT_TRUE(group.supports(at::kCPU));
    if (group.size() == 1) return;  // carries every device: nothing travels
    EXPECT_FALSE(group.supports(at::kMeta));
    at::Tensor there = at::empty({4}, at::kMeta);
    at::Tensor bytes = at::empty({4}, at::TensorOptions(at::kMeta).dtype(at::kByte));
    const std::vector<std::size_t> counts(group.size(), 4);
    const auto refusal = testing::AllOf(
        testing::HasSubstr("on meta"),
        testing::HasSubstr("backend " + std::string(group.backend()) + " carries no"));
    EXPECT_THAT(error_of([&] { group.all_reduce(there); }), refusal);
    EXPECT_THAT(error_of([&] { group.send(there, (group.rank() + 1) % group.size()); }), refusal);
    EXPECT_THAT(error_of([&] { group.gather_bytes(bytes, counts, bytes, 0); }), refusal);
    EXPECT_THAT(error_of([&] { group.broadcast_bytes(bytes, 0); }), refusal);
  });
}

TEST_P(GroupSuite, AutogradSeesTheWrite) {
  run([](const ProcessGroup& group) {
    at::Tensor tensor = at::ones({4});
    const auto before = tensor._version();
    group.all_reduce(tensor);
    EXPECT_GT(tensor._version(), before);
  });
}

TEST_P(GroupSuite, DifferentSequencesAreFoundInDebugBuilds) {
  run([](const ProcessGroup& group) {
    at::Tensor tensor = at::ones({8}, at::kInt);
    group.all_reduce(tensor);
    EXPECT_NO_THROW(group.verify_sequence());
    // As many bytes of another dtype: nothing else notices.
    tensor = tensor.view(group.rank() == 0 ? at::kInt : at::kFloat);
    at::Tensor all = at::empty({group.size(), 8}, tensor.scalar_type());
    group.all_gather(tensor, all);
#ifdef NDEBUG
    EXPECT_NO_THROW(group.verify_sequence());
#else
    if (group.size() == 1)
      EXPECT_NO_THROW(group.verify_sequence());
    else
      EXPECT_THROW(group.verify_sequence(), base::CheckError);
#endif
  });
}

}  // namespace
}  // namespace tt::comm

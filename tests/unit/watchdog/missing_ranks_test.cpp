#include "tensor_tracer/watchdog/missing_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace tt::watchdog {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kTensor = "world/tensor.0";
constexpr const char* kData = "world/data.1";

RankWait waits(const char* path, std::vector<int> ranks, std::uint64_t sequence) {
  return {.group = path == kTensor ? "tensor" : "data",
          .path = path,
          .ranks = std::move(ranks),
          .sequence = sequence,
          .operation = "all_reduce sum",
          .bytes = 64,
          .seconds = 5.0};
}

/// Four ranks, tensor 2 x data 2, which have all begun 10 collectives of each group and run.
struct Job {
  RankStates before, after;
  Job() {
    for (int rank = 0; rank < 4; ++rank) {
      before.push_back(RankState{.rank = rank,
                                 .host = "elsewhere",
                                 .pid = 100 + rank,
                                 .beat = 1,
                                 .step = 7,
                                 .calls = {{kTensor, 10}, {kData, 10}}});
      after.push_back(before.back());
      after.back()->beat = 4;
    }
  }
  void wait(int rank, RankWait wait) {
    after[static_cast<std::size_t>(rank)]->calls[wait.path] = wait.sequence;
    after[static_cast<std::size_t>(rank)]->wait = std::move(wait);
  }
  void stop(int rank) { after[static_cast<std::size_t>(rank)]->beat = 1; }
  Verdict judge(int rank, const ExcusedBeats& excused = {}) const {
    return find_missing(before, after, rank, excused);
  }
  std::string text(int rank) const {
    return describe(
        judge(rank), after, [](int one) { return "rank " + std::to_string(one); });
  }
};

std::vector<int> ranks_of(const Verdict& verdict) {
  std::vector<int> ranks;
  for (const MissingRank& missing : verdict.missing) ranks.push_back(missing.rank);
  return ranks;
}

TEST(MissingRanks, NamesTheRankThatIsBehindAndTheCollective) {
  Job job;
  job.wait(0, waits(kTensor, {0, 1}, 11));
  EXPECT_EQ(
      job.text(0),
      "rank 1 did not arrive at all_reduce sum of 64 bytes, number 11 of group tensor (ranks "
      "0, 1), in step 7; rank 0 has waited for 5.0 s; process 101 of rank 1 on elsewhere runs, "
      "but is not in a collective");
  job.stop(1);
  EXPECT_THAT(job.text(0), HasSubstr("process 101 of rank 1 on elsewhere does not run"));
  EXPECT_FALSE(job.judge(0).is_excused());
  EXPECT_THAT(job.judge(0).live, ElementsAre(0, 2, 3));
}

/// Rank 0 waits for rank 2, which waits for rank 3: only rank 3 is to blame.
TEST(MissingRanks, FollowsTheWaitsOfOtherGroups) {
  Job job;
  job.wait(0, waits(kData, {0, 2}, 11));
  job.wait(1, waits(kData, {1, 3}, 11));
  job.wait(2, waits(kTensor, {2, 3}, 11));
  job.stop(3);
  for (const int rank : {0, 1, 2}) EXPECT_THAT(ranks_of(job.judge(rank)), ElementsAre(3)) << rank;
  EXPECT_THAT(job.text(0), HasSubstr("number 11 of group tensor (ranks 2, 3)"));
}

/// It has begun the collective, and was stopped in it.
TEST(MissingRanks, NamesARankThatStoppedInTheCollective) {
  Job job;
  job.wait(0, waits(kTensor, {0, 1}, 11));
  job.wait(1, waits(kTensor, {0, 1}, 11));
  EXPECT_THAT(ranks_of(job.judge(0)), ElementsAre());
  job.stop(1);
  EXPECT_THAT(ranks_of(job.judge(0)), ElementsAre(1));
}

TEST(MissingRanks, ExcusesARankThatWorksUntilItStops) {
  Job job;
  job.wait(0, waits(kTensor, {0, 1}, 11));
  job.after[1]->work = "writes the model";
  EXPECT_TRUE(job.judge(0, {{1, 2}}).is_excused());
  job.stop(1);  // perhaps only slow: once
  EXPECT_TRUE(job.judge(0).is_excused());
  EXPECT_FALSE(job.judge(0, {{1, 1}}).is_excused());
}

TEST(MissingRanks, NamesAllRanksThatWaitForEachOther) {
  Job job;
  job.wait(0, waits(kTensor, {0, 1}, 11));
  job.wait(1, waits(kData, {0, 1}, 11));
  EXPECT_THAT(job.text(0), HasSubstr("ranks wait for each other in different collectives: "));
  EXPECT_THAT(job.text(0), HasSubstr("rank 1 has waited"));
  EXPECT_FALSE(job.judge(0).is_excused());
}

TEST(MissingRanks, NamesTheOtherSideOfAReceive) {
  Job job;
  RankWait wait = waits(kTensor, {0, 1}, 0);
  wait.peer = 1;
  job.wait(0, wait);
  EXPECT_THAT(ranks_of(job.judge(0)), ElementsAre(1));
}

TEST(MissingRanks, ARankWhoseStateIsUnknownIsNamedSo) {
  Job job;
  job.wait(0, waits(kTensor, {0, 1}, 11));
  job.before[1] = job.after[1] = std::nullopt;
  EXPECT_THAT(job.text(0), HasSubstr("the state of rank 1 cannot be read"));
}

TEST(RankStateText, IsReadBackWhole) {
  Job job;
  job.wait(0, waits(kTensor, {0, 1}, 11));
  const std::string text = to_json_text(*job.after[0]);
  const auto read = parse_rank_state(text);
  ASSERT_TRUE(read);
  EXPECT_EQ(to_json_text(*read), text);
  for (std::size_t size = 0; size < text.size(); ++size)
    EXPECT_FALSE(parse_rank_state(text.substr(0, size)));
}

}  // namespace
}  // namespace tt::watchdog

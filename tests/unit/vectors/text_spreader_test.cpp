#include "tensor_tracer/vectors/text_spreader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "tensor_tracer/comm/world.h"

namespace tt::vectors {
namespace {

data::PromptedText text_of(std::int64_t number) {
  const std::int64_t length = 1 + number * 7 % 13;
  data::PromptedText text;
  for (std::int64_t i = 0; i < length; ++i) text.ids.push_back(100 * number + i);
  if (number % 3 > 0) text.response = {{number % length, length}};
  return text;
}

// On each rank: the numbers of each visit.
std::vector<std::vector<std::vector<std::int64_t>>> spread(std::int64_t texts,
                                                           mesh::MeshShape shape,
                                                           std::int64_t batch_size) {
  std::vector<std::vector<std::vector<std::int64_t>>> seen(
      static_cast<std::size_t>(shape.world_size()));
  comm::run_local(shape.world_size(), [&](const comm::ProcessGroup& world) {
    const train::Groups groups = train::make_groups(world, shape);
    std::int64_t next = 0;
    auto& own = seen[static_cast<std::size_t>(world.rank())];
    TextSpreader(groups, batch_size)
        .run(
            [&]() -> std::optional<NumberedText> {
              EXPECT_EQ(world.rank(), 0);
              if (next == texts) return std::nullopt;
              const std::int64_t number = next++;
              return NumberedText{number, text_of(number)};
            },
            [&](const std::vector<NumberedText>& visited) {
              auto& numbers = own.emplace_back();
              for (const NumberedText& one : visited) {
                numbers.push_back(one.number);
                EXPECT_EQ(one.text.ids, text_of(one.number).ids);
                EXPECT_EQ(one.text.response, text_of(one.number).response);
              }
            });
  });
  return seen;
}

TEST(TextSpreader, EachReplicaGetsItsShare) {
  const auto seen = spread(101, {.tensor = 2, .pipeline = 1, .data = 2}, 3);
  std::map<std::int64_t, int> times;
  ASSERT_EQ(seen.size(), 4U);
  for (const std::size_t rank : {0U, 2U}) {
    EXPECT_EQ(seen[rank], seen[rank + 1]);  // ranks that share each layer
    EXPECT_EQ(seen[rank].size(), seen[0].size());
    for (const auto& visit : seen[rank]) {
      EXPECT_LE(visit.size(), 3U);
      for (const std::int64_t number : visit) ++times[number];
    }
  }
  EXPECT_EQ(times.size(), 101U);
  for (const auto& [number, count] : times) EXPECT_EQ(count, 1) << number;
}

// Otherwise short texts would be padded to the longest.
TEST(TextSpreader, TextsOfOneLengthRunTogether) {
  const auto seen = spread(64, {}, 8);
  for (const auto& visit : seen[0]) {
    const auto length = [](std::int64_t number) { return text_of(number).length(); };
    const auto [least, most] = std::ranges::minmax(visit, {}, length);
    EXPECT_LE(length(most) - length(least), 3);
  }
}

TEST(TextSpreader, NoTextIsNoVisit) { EXPECT_TRUE(spread(0, {}, 2)[0].empty()); }

}  // namespace
}  // namespace tt::vectors

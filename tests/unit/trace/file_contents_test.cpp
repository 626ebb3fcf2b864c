#include "tensor_tracer/trace/file_contents.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensor_tracer/comm/collectives.h"
#include "tensor_tracer/comm/world.h"

namespace tt::trace {
namespace {

FileContents some() {
  FileContents contents;
  auto vector = std::make_shared<DirectionVector>();
  vector->name = "caf\xe9";  // a file's name need not be UTF-8
  vector->hidden_size = 2;
  vector->has_embedding_row = true;
  vector->rows = {1, 2, 3, 4, 5, 6};
  contents.vectors[vector->name] = vector;
  contents.tensors[{"a.safetensors", "b"}] = at::arange(6, at::kDouble).view({2, 3}).t();
  contents.tensors[{"a.safetensors", "none"}] = at::empty({0, 3}, at::kBFloat16);
  return contents;
}

TEST(FileContents, EveryRankGetsThoseOfTheRoot) {
  comm::run_local(
      3,
      [](const comm::ProcessGroup& group) {
        FileContents contents;
        if (group.rank() == 1) contents = some();
        if (group.rank() == 2) contents.tensors[{"its own", "x"}] = at::ones({1});
        broadcast_contents(group, contents, 1);
        const FileContents expected = some();
        ASSERT_EQ(contents.vectors.size(), 1U);
        const DirectionVector& vector = *contents.vectors.at("caf\xe9");
        EXPECT_EQ(vector.name, "caf\xe9");
        EXPECT_EQ(vector.hidden_size, 2);
        EXPECT_TRUE(vector.has_embedding_row);
        EXPECT_THAT(vector.rows, testing::ElementsAre(1, 2, 3, 4, 5, 6));
        ASSERT_EQ(contents.tensors.size(), 2U);
        for (const auto& [key, tensor] : expected.tensors) {
          EXPECT_EQ(contents.tensors.at(key).scalar_type(), tensor.scalar_type());
          EXPECT_TRUE(at::equal(contents.tensors.at(key), tensor));
        }
      });
}

TEST(FileContents, ALibraryOfThemReadsNothingElse) {
  ReceivedFiles files(some());
  EXPECT_THAT(files.names(), testing::ElementsAre("caf\xe9"));
  EXPECT_EQ(files.find("caf\xe9").value()->hidden_size, 2);
  EXPECT_EQ(files.find("a.safetensors", "b").value().size(0), 3);
  EXPECT_EQ(files.find("other").error().code, "not_found");
  EXPECT_EQ(files.find("a.safetensors", "c").error().code, "not_found");
}

TEST(Broadcast, TextOfAnySizeAndBytesReplacesWhatOtherRanksHold) {
  comm::run_local(
      3,
      [](const comm::ProcessGroup& group) {
        for (const std::string& sent :
             {std::string("a\0\xff b", 5), std::string(), std::string(70'000, 'x')}) {
          std::string text = group.rank() == 2 ? sent : "of rank " + std::to_string(group.rank());
          comm::broadcast_text(group, text, 2);
          EXPECT_EQ(text, sent);
        }
      });
}

}  // namespace
}  // namespace tt::trace

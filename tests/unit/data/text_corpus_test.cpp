#include "tensor_tracer/data/text_corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

namespace tt::data {
namespace {

namespace fs = std::filesystem;

class TextCorpusTest : public testing::Test {
 protected:
  TextCorpusTest()
      : folder_(fs::temp_directory_path() / ("tt_corpus_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~TextCorpusTest() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }
  static std::string all_of(const TextCorpus& corpus) {
    std::string text(static_cast<std::size_t>(corpus.size()), ' ');
    corpus.read(0, {reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
    return text;
  }
  const fs::path folder_;
};

TEST_F(TextCorpusTest, FoldersAreWalkedInSortedOrderWithoutExcludedAndBinaryOnes) {
  write("b.txt", "second ");
  write("a/x.txt", "first ");
  write("tests/skip.txt", "never");
  write("image.bin", std::string("a\0b", 3));
  write("c/empty.txt", "");
  write("c/z.txt", "third");
  const auto corpus = TextCorpus::open({folder_.string()}, {"tests"});
  ASSERT_TRUE(corpus.ok()) << to_string(corpus.error());
  EXPECT_EQ(all_of(corpus.value()), "first second third");
  EXPECT_EQ(corpus.value().num_files(), 3);
}

TEST_F(TextCorpusTest, AByteOrderMarkIsNoText) {
  const std::string mark = "\xEF\xBB\xBF";
  const auto corpus =
      TextCorpus::open({write("1", mark + "ab"), write("2", mark + "c" + mark)}, {});
  ASSERT_TRUE(corpus.ok());
  EXPECT_EQ(all_of(corpus.value()), "abc" + mark) << "only at the begin of a file";
  EXPECT_FALSE(TextCorpus::open({write("3", mark)}, {}).ok());
}

TEST_F(TextCorpusTest, ReadsAcrossFilesAndMappedOnes) {
  const std::string big(17 << 20, 'x');
  const auto corpus = TextCorpus::open({write("1", "ab"), write("2", big), write("3", "yz")}, {});
  ASSERT_TRUE(corpus.ok());
  std::string text(4, ' ');
  corpus.value().read(1, {reinterpret_cast<std::uint8_t*>(text.data()), 4});
  EXPECT_EQ(text, "bxxx");
  corpus.value().read(corpus.value().size() - 4, {reinterpret_cast<std::uint8_t*>(text.data()), 4});
  EXPECT_EQ(text, "xxyz");
}

TEST_F(TextCorpusTest, UnigramEntropyInNats) {
  const auto corpus = TextCorpus::open({write("e", "aabc")}, {});
  ASSERT_TRUE(corpus.ok());
  EXPECT_NEAR(corpus.value().unigram_entropy(), 1.5 * std::log(2.0), 1e-12);
}

TEST_F(TextCorpusTest, MissingAndEmptyInputIsNamed) {
  EXPECT_THAT(to_string(TextCorpus::open({}, {}).error()),
              testing::HasSubstr("--data-path: no training text was given"));
  EXPECT_THAT(to_string(TextCorpus::open({(folder_ / "no").string()}, {}).error()),
              testing::HasSubstr("no\" does not exist"));
  EXPECT_THAT(to_string(TextCorpus::open({write("none", "")}, {}).error()),
              testing::HasSubstr("holds no text"));
}

}  // namespace
}  // namespace tt::data

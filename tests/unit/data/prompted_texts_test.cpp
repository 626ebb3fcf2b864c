#include "tensor_tracer/data/prompted_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tt::data {
namespace {

namespace fs = std::filesystem;
using Span = std::pair<std::int64_t, std::int64_t>;
using testing::ElementsAre;

class PromptedTextsTest : public testing::Test {
 protected:
  PromptedTextsTest()
      : folder_(fs::temp_directory_path() / ("tt_prompted_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~PromptedTextsTest() override { fs::remove_all(folder_); }

  std::unique_ptr<PromptedTexts> open(const std::string& name, const std::string& content,
                                      bool takes_generated = false) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    auto opened = PromptedTexts::open(
        folder_ / name,
        {.vocab_size = 256, .option = "--positive", .takes_generated = takes_generated});
    EXPECT_TRUE(opened.ok());
    return std::move(opened).value();
  }
  const fs::path folder_;
};

PromptedText next_of(PromptedTexts& texts) {
  auto next = texts.next();
  EXPECT_TRUE(next.ok() && next.value().has_value());
  return *next.value();
}

TEST_F(PromptedTextsTest, LinesAreResponses) {
  const auto texts = open("a.txt", "\nab\r\n \t\ncd");
  for (int pass = 0; pass < 2; ++pass) {
    const PromptedText first = next_of(*texts);
    EXPECT_THAT(first.ids, ElementsAre('a', 'b'));
    EXPECT_THAT(first.response, ElementsAre(Span(0, 2)));
    EXPECT_EQ(first.prompt_length(), 0);
    EXPECT_EQ(texts->place(), "line 2 of \"" + (folder_ / "a.txt").string() + "\"");
    EXPECT_THAT(next_of(*texts).ids, ElementsAre('c', 'd'));
    EXPECT_FALSE(texts->next().value().has_value());
    texts->rewind();
  }
}

TEST_F(PromptedTextsTest, APromptIsBeforeTheResponse) {
  const auto texts =
      open("a.jsonl", "{\"prompt\": \"abc\", \"response\": \"de\"}\n{\"text\": \"f\"}\n{}\n");
  const PromptedText first = next_of(*texts);
  EXPECT_EQ(first.prompt_length(), 3);
  EXPECT_THAT(first.response, ElementsAre(Span(3, 5)));
  EXPECT_EQ(next_of(*texts).prompt_length(), 0);
  const auto wrong = texts->next();
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().where, "--positive");
  EXPECT_THAT(wrong.error().message, testing::HasSubstr("line 3 of"));
}

TEST_F(PromptedTextsTest, AGeneratedTextIsTheResponse) {
  const std::string line = "{\"prompt\": \"abc\", \"text\": \"de\"}\n";
  const auto texts = open("a.jsonl",
                          line + "{\"prompt\": \"abc\", \"text\": \"\"}\n" +
                              "{\"prompt\": \"a\", \"response\": \"b\"}\n" +
                              "{\"prompt\": \"a\", \"response\": \"b\", \"text\": \"c\"}\n",
                          true);
  const PromptedText first = next_of(*texts);
  EXPECT_THAT(first.ids, ElementsAre('a', 'b', 'c', 'd', 'e'));
  EXPECT_THAT(first.response, ElementsAre(Span(3, 5)));
  const PromptedText empty = next_of(*texts);
  EXPECT_EQ(empty.prompt_length(), 3);
  EXPECT_TRUE(empty.response.empty());
  EXPECT_THAT(next_of(*texts).response, ElementsAre(Span(1, 2)));
  const auto both = texts->next();
  ASSERT_FALSE(both.ok());
  EXPECT_THAT(both.error().message, testing::HasSubstr("has both \"text\" and \"response\""));
  const auto of_training = open("b.jsonl", line)->next();
  ASSERT_FALSE(of_training.ok());
  EXPECT_THAT(of_training.error().message, testing::HasSubstr("has both \"text\" and a prompt"));
}

TEST_F(PromptedTextsTest, TheTokensOfAGeneratedTextAreThoseOfItsLine) {
  const std::string line = "{\"prompt\": \"a\", \"text\": \"\\ufffd\", \"token_ids\": ";
  const auto texts =
      open("a.jsonl",
           line + "[200, 7]}\n" + line + "[200, 7], \"finish_reason\": \"stop\"}\n" + line +
               "[7], \"finish_reason\": \"stop\"}\n" + line + "[-1]}\n" + line + "[100000]}\n",
           true);
  EXPECT_THAT(next_of(*texts).ids, ElementsAre('a', 200, 7));
  EXPECT_THAT(next_of(*texts).ids, ElementsAre('a', 200)) << "without the end token";
  EXPECT_TRUE(next_of(*texts).response.empty());
  const auto negative = texts->next(), unknown = texts->next();
  EXPECT_THAT(negative.error().message, testing::HasSubstr("\"token_ids\" that are not ids"));
  EXPECT_THAT(unknown.error().message,
              testing::HasSubstr("has the token id 100000, and the model"));
}

TEST(PromptedText, ACutDropsTheEnd) {
  const PromptedText whole{{1, 2, 3, 4, 5, 6}, {{1, 3}, {4, 6}}};
  const auto cut_at = [&](std::int64_t most) {
    PromptedText text = whole;
    text.cut(most);
    return text;
  };
  EXPECT_EQ(cut_at(6).response, whole.response);
  EXPECT_EQ(cut_at(9).ids, whole.ids);
  EXPECT_THAT(cut_at(5).response, ElementsAre(Span(1, 3), Span(4, 5)));
  EXPECT_THAT(cut_at(4).response, ElementsAre(Span(1, 3)));
  EXPECT_THAT(cut_at(2).response, ElementsAre(Span(1, 2)));
  EXPECT_TRUE(cut_at(1).response.empty());
  EXPECT_EQ(cut_at(1).prompt_length(), 1);
}

}  // namespace
}  // namespace tt::data

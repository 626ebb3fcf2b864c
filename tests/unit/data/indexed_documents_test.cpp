#include "tensor_tracer/data/indexed_documents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tensor_tracer/data/prepared.h"

namespace tt::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <typename Number>
void append(std::string& bytes, Number number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

/// Two documents of uint16: 5 6 7, and 8.
struct Files {
  std::string bin, index;

  Files() {
    for (const std::uint16_t id : {5, 6, 7, 8}) append(bin, id);
    index.assign("MMIDIDX\0\0", 9);
    append<std::uint64_t>(index, 1);
    append<std::uint8_t>(index, 8);
    append<std::uint64_t>(index, 2);
    append<std::uint64_t>(index, 3);
    for (const std::int32_t length : {3, 1}) append(index, length);
    for (const std::int64_t offset : {0, 6}) append(index, offset);
    for (const std::int64_t mark : {0, 1, 2}) append(index, mark);
  }
  template <typename Number>
  Files& set(std::size_t offset, Number number) {
    std::memcpy(index.data() + offset, &number, sizeof number);
    return *this;
  }
  base::Result<IndexedDocuments> open(std::string_view roles = {}) const {
    return IndexedDocuments::open(
        {.name = "x", .bin = bin, .index = index, .roles = roles, .counted_role = 3});
  }
  std::string refusal() const {
    const auto opened = open();
    return opened ? "" : to_string(opened.error());
  }
};

constexpr std::size_t kKind = 17, kSequences = 18, kMarks = 26, kLengths = 34, kOffsets = 42,
                      kMarkList = 58;

TEST(IndexedDocuments, AreRead) {
  const Files files;
  const auto opened = files.open();
  ASSERT_TRUE(opened.ok()) << to_string(opened.error());
  const IndexedDocuments& documents = opened.value();
  ASSERT_EQ(documents.size(), 2);
  std::vector<std::int64_t> ids(2);
  documents.read(0, 1, ids);
  EXPECT_THAT(ids, ElementsAre(6, 7));
  EXPECT_EQ(documents.length(1), 1);
  EXPECT_FALSE(documents.has_mask());
}

TEST(IndexedDocuments, CountTheRole) {
  const Files files;
  const std::string roles("\2\3\0\3", 4);
  const auto opened = files.open(roles);
  ASSERT_TRUE(opened.ok());
  bool counted[3];
  opened.value().read_counted(0, 0, counted);
  EXPECT_THAT(counted, ElementsAre(false, true, false));
  EXPECT_THAT(to_string(files.open(roles.substr(1)).error()), HasSubstr("3 roles"));
}

TEST(IndexedDocuments, IdsOfTheVocabularyAreNamed) {
  const Files files;
  EXPECT_TRUE(files.open().value().check_ids(9).ok());
  EXPECT_THAT(to_string(files.open().value().check_ids(7).error()),
              HasSubstr("document 1 of \"x\" has the id 7 at position 2, and the model has 7 ids"));
}

TEST(IndexedDocuments, DamagedFilesAreRefused) {
  Files shorter;
  shorter.index.resize(33);
  EXPECT_THAT(shorter.refusal(), HasSubstr("\"x.idx\" is not an index"));
  EXPECT_THAT(Files().set(0, 'X').refusal(), HasSubstr("is not an index"));
  EXPECT_THAT(Files().set(9, std::uint64_t{2}).refusal(), HasSubstr("version 2"));
  EXPECT_THAT(Files().set(kKind, std::uint8_t{7}).refusal(), HasSubstr("dtype 7"));
  for (const std::size_t count : {kSequences, kMarks})
    for (const std::uint64_t number : {std::uint64_t{1} << 40, ~std::uint64_t{0}, std::uint64_t{6}})
      EXPECT_THAT(Files().set(count, number).refusal(), HasSubstr("too few"));
  EXPECT_THAT(Files().set(kSequences, std::uint64_t{0}).refusal(), HasSubstr("no sequence"));
  EXPECT_THAT(Files().set(kLengths, -1).refusal(), HasSubstr("has the length -1"));
  EXPECT_THAT(Files().set(kLengths + 4, 2).refusal(), HasSubstr("document 2 has 2 tokens"));
  for (const std::int64_t offset : {std::int64_t{-2}, std::int64_t{8}, std::int64_t{1} << 62})
    EXPECT_THAT(Files().set(kOffsets + 8, offset).refusal(),
                HasSubstr("is not inside the 8 bytes"));
  EXPECT_THAT(Files().set(kOffsets, std::int64_t{1}).refusal(),
              HasSubstr("in the middle of an id"));
  for (std::size_t mark = 0; mark < 3; ++mark)
    EXPECT_THAT(Files().set(kMarkList + 8 * mark, std::int64_t{3}).refusal(),
                HasSubstr("marks rise from 0 to 2"));
}

std::string prepared_refusal(const std::string& text) {
  const auto parsed = PreparedFolder::parse(text, "p");
  return parsed ? "" : to_string(parsed.error());
}

TEST(PreparedFolder, DescriptionIsChecked) {
  const std::string good = R"({"format": "tensor-tracer prepared data", "version": 1,
    "tokenizer_hash": "ab", "vocab_size": 9, "documents": 2, "tokens": 4,
    "roles": ["none", "assistant"]})";
  const auto parsed = PreparedFolder::parse(good, "p");
  ASSERT_TRUE(parsed.ok()) << to_string(parsed.error());
  EXPECT_EQ(parsed.value().counted_role, 1);
  const auto with = [&](const std::string& part, const std::string& other) {
    std::string text = good;
    return prepared_refusal(text.replace(text.find(part), part.size(), other));
  };
  EXPECT_THAT(prepared_refusal("[]"), HasSubstr("\"p/prepared.json\" is not the description"));
  EXPECT_THAT(with("prepared data", "other"), HasSubstr("is not the description"));
  EXPECT_THAT(with("\"version\": 1", "\"version\": 2"), HasSubstr("version 2"));
  EXPECT_THAT(with("\"documents\": 2", "\"documents\": -2"), HasSubstr("no number \"documents\""));
  EXPECT_THAT(with("\"ab\"", "7"), HasSubstr("no \"tokenizer_hash\""));
  EXPECT_THAT(with("\"assistant\"", "\"user\""), HasSubstr("no role \"assistant\""));
  EXPECT_THAT(with("[\"none\", \"assistant\"]", "7"), HasSubstr("no role \"assistant\""));
}

}  // namespace
}  // namespace tt::data

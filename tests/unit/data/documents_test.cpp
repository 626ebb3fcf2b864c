#include "tensor_tracer/data/documents.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "tensor_tracer/data/batches.h"
#include "tensor_tracer/data/document_samples.h"

namespace tt::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Documents of these lengths; document d has the ids 100 * d, 100 * d + 1 and so on. `counted`: of
/// all tokens; empty: all count.
std::shared_ptr<const Documents> documents_of(const std::vector<std::int64_t>& lengths,
                                              const std::vector<bool>& counted = {}) {
  MemoryDocuments::Tokens tokens;
  std::vector<std::int32_t> ids;
  std::vector<std::pair<std::int32_t, std::int32_t>> origins;
  for (std::size_t d = 0; d < lengths.size(); ++d) {
    for (std::int64_t i = 0; i < lengths[d]; ++i)
      ids.push_back(static_cast<std::int32_t>(100 * static_cast<std::int64_t>(d) + i));
    tokens.begin.push_back(std::ssize(ids));
    origins.emplace_back(0, static_cast<std::int32_t>(d) + 1);
  }
  tokens.ids = at::tensor(ids, at::kInt);
  if (!counted.empty()) {
    tokens.counted = at::empty({std::ssize(counted)}, at::kBool);
    std::ranges::copy(counted, tokens.counted.mutable_data_ptr<bool>());
  }
  return std::make_shared<const MemoryDocuments>(std::move(tokens), std::vector<std::string>{"a"},
                                                 std::move(origins));
}

struct Rows {
  std::vector<std::int64_t> tokens, labels, starts;
  std::vector<int> counted;
};

Rows read(const SampleSource& samples, std::int64_t sample, std::size_t length) {
  Rows rows{std::vector<std::int64_t>(length),
            std::vector<std::int64_t>(length),
            std::vector<std::int64_t>(length),
            {}};
  const auto counted = std::make_unique<bool[]>(length);
  samples.read(sample, {rows.tokens, rows.labels, rows.starts, {counted.get(), length}});
  rows.counted.assign(counted.get(), counted.get() + length);
  return rows;
}

TEST(DocumentSamples, ShareRowsInTheOrderOfTheFile) {
  const auto made = DocumentSamples::make(documents_of({3, 5, 2, 4}), {.seq_length = 6});
  ASSERT_TRUE(made.ok());
  // 2 and 4 places; 1 and 3 places.
  ASSERT_EQ(made.value().size(), 2);
  const Rows first = read(made.value(), 0, 6), second = read(made.value(), 1, 6);
  EXPECT_THAT(first.tokens, ElementsAre(0, 1, 100, 101, 102, 103));
  EXPECT_THAT(first.labels, ElementsAre(1, 2, 101, 102, 103, 104));
  EXPECT_THAT(first.starts, ElementsAre(0, 0, 2, 2, 2, 2));
  EXPECT_THAT(first.counted, ElementsAre(1, 1, 1, 1, 1, 1));
  EXPECT_THAT(second.tokens, ElementsAre(200, 300, 301, 302, 0, 0));
  EXPECT_THAT(second.labels, ElementsAre(201, 301, 302, 303, -1, -1));
  EXPECT_THAT(second.starts, ElementsAre(0, 1, 1, 1, 4, 4));
  EXPECT_THAT(second.counted, ElementsAre(1, 1, 1, 1, 0, 0));
  EXPECT_EQ(made.value().num_counted(1), 4);
}

TEST(DocumentSamples, ALaterDocumentFillsAnEarlierRow) {
  const auto made = DocumentSamples::make(documents_of({5, 6, 3}), {.seq_length = 6});
  ASSERT_EQ(made.value().size(), 2);
  EXPECT_THAT(read(made.value(), 0, 6).tokens, ElementsAre(0, 1, 2, 3, 200, 201));
}

TEST(DocumentSamples, PaddedRowsHoldOne) {
  const auto made = DocumentSamples::make(documents_of({3, 2}), {.seq_length = 4, .packs = false});
  ASSERT_EQ(made.value().size(), 2);
  EXPECT_THAT(read(made.value(), 1, 4).labels, ElementsAre(101, -1, -1, -1));
}

TEST(DocumentSamples, WithoutLossAreLeftOut) {
  // Of the second document only the first token counts, which nothing predicts.
  const auto made = DocumentSamples::make(
      documents_of({2, 2, 1, 3}, {false, true, true, false, true, false, true, false}),
      {.seq_length = 4});
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made.value().num_left_out(), 2);
  EXPECT_THAT(read(made.value(), 0, 4).tokens, ElementsAre(0, 300, 301, 0));
  EXPECT_THAT(read(made.value(), 0, 4).counted, ElementsAre(1, 1, 0, 0));
}

TEST(DocumentSamples, TooLongAreRefusedOrCut) {
  const auto documents = documents_of({3, 8});
  const auto refused = DocumentSamples::make(documents, {.seq_length = 6});
  EXPECT_THAT(to_string(refused.error()),
              HasSubstr("line 2 of \"a\" has 8 tokens, and a sequence of --seq-length 6 takes 7"));
  const auto cut = DocumentSamples::make(documents, {.seq_length = 6, .cuts = true});
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(cut.value().num_cut(), 1);
  EXPECT_THAT(read(cut.value(), 1, 6).labels, ElementsAre(101, 102, 103, 104, 105, 106));
}

TEST(JoinedDocuments, AreOneText) {
  const JoinedDocuments text(documents_of({2, 0, 3}, {true, false, true, true, false}));
  EXPECT_EQ(text.size(), 5);
  EXPECT_TRUE(at::equal(text.read(1, 3), at::tensor({1, 200, 201}, at::kLong)));
  bool counted[3];
  text.read_counted(1, counted);
  EXPECT_THAT(counted, ElementsAre(false, true, true));
  EXPECT_NEAR(text.unigram_entropy(), std::log(5.0), 1e-12);
}

TEST(BlendOrder, EachBeginningKeepsTheWeights) {
  const std::vector<double> weights = {0.2, 0.5, 0.3};
  BlendOrder order({2, 5, 3}), again({2, 5, 3});
  std::vector<std::int64_t> taken(3);
  for (std::int64_t n = 0; n < 10'000; ++n) {
    const BlendOrder::Pick pick = order.at(n);
    EXPECT_EQ(pick.number, taken[pick.part]++);
    for (std::size_t part = 0; part < 3; ++part)
      ASSERT_LE(
          std::abs(static_cast<double>(taken[part]) - weights[part] * static_cast<double>(n + 1)),
          1.5);
  }
  for (const std::int64_t n : {9'000, 4'096, 4'095, 17, 0, 8'191}) {
    const BlendOrder::Pick back = order.at(n), fresh = again.at(n);
    EXPECT_EQ(back.part, fresh.part);
    EXPECT_EQ(back.number, fresh.number);
  }
}

Blend blend_of_two() {
  Blend blend(2);
  for (std::size_t part = 0; part < 2; ++part) {
    auto made =
        DocumentSamples::make(documents_of(std::vector<std::int64_t>(40, 4)), {.seq_length = 7});
    blend[part].samples = std::make_unique<DocumentSamples>(std::move(made).value());
    blend[part].weight = part == 0 ? 3 : 1;
  }
  return blend;
}

TEST(Batches, AreTheSameInEveryDivision) {
  const Blend blend = blend_of_two();
  Batches whole(blend, 7, 20.0, 7), parts(blend, 7, 20.0, 7);
  for (const std::int64_t step : {1, 2, 9, 3}) {
    const Batch batch = whole.train(step, 8, 0, 8);
    for (const std::int64_t row : {4, 0, 6, 2}) {
      const Batch part = parts.train(step, 8, row, 2);
      EXPECT_TRUE(at::equal(part.tokens, batch.tokens.narrow(0, row, 2)));
      EXPECT_EQ(4 * part.num_counted, batch.num_counted);
    }
    EXPECT_EQ(batch.num_counted, batch.counted.sum().item<double>());
  }
}

TEST(Batches, OfFullRowsHaveNoMasks) {
  Blend blend(1);
  auto made =
      DocumentSamples::make(documents_of(std::vector<std::int64_t>(40, 7)), {.seq_length = 6});
  blend[0].samples = std::make_unique<DocumentSamples>(std::move(made).value());
  const Batch batch = Batches(blend, 6, 20.0, 7).train(1, 4, 0, 2);
  EXPECT_FALSE(batch.starts.defined());
  EXPECT_FALSE(batch.counted.defined());
}

}  // namespace
}  // namespace tt::data

#include "tensor_tracer/protocol/record.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <unordered_set>
#include <vector>

#include "tensor_tracer/protocol/crc32c.h"

namespace tt::protocol {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Five u8 codes in one line, with the line's offset and scale before them.
constexpr std::string_view kPayload = "offscalehello";
constexpr std::size_t kSmallRecordBytes = kRecordHeaderBytes + 16;  // 13 bytes, padded

RecordHeader small_header() {
  RecordHeader header;
  header.run = 0x5f0c000000000001;
  header.sequence = 7;
  header.step = 12;
  header.entry = 3;
  header.layer = 2;
  header.dtype = Dtype::kU8;
  header.ndim = 2;
  header.shape = {1, 5, 1, 1};
  return header;
}

std::string small_record() {
  std::string out;
  append_record(out, small_header(), bytes_of(kPayload));
  return out;
}

std::string read_text(const std::string& name) {
  std::ifstream file(std::string(TT_GOLDEN_DIR) + "/" + name, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Crc32c, KnowsTheStandardCheckValue) {
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283U);
  EXPECT_EQ(crc32c_portable(bytes_of("123456789")), 0xE3069283U);
  EXPECT_EQ(crc32c({}), 0U);
}

TEST(Crc32c, GoesOnAfterTheBytesBefore) {
  const std::string_view text = "123456789";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    const auto first = bytes_of(text.substr(0, cut)), second = bytes_of(text.substr(cut));
    ASSERT_EQ(crc32c(second, crc32c(first)), 0xE3069283U) << cut;
    ASSERT_EQ(crc32c_portable(second, crc32c_portable(first)), 0xE3069283U) << cut;
  }
}

TEST(Crc32c, BothWaysAgreeAtEveryLengthAndAlignment) {
  std::string text(100, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 37 + 11);
  for (std::size_t from = 0; from < 9; ++from) {
    for (std::size_t size = 0; from + size <= text.size(); ++size) {
      const auto part = bytes_of(std::string_view(text).substr(from, size));
      ASSERT_EQ(crc32c(part), crc32c_portable(part)) << from << " " << size;
    }
  }
}

TEST(Record, RoundTripKeepsEveryField) {
  RecordHeader header = small_header();
  header.plan = 5;
  header.micro_batch = 6;
  header.prompt_set = 8;
  header.first_row = 9;
  header.point = 7;
  header.tensor_rank = 1;
  header.pipeline_rank = 2;
  header.data_rank = 3;
  header.phase = RecordPhase::kEval;
  header.direction = RecordDirection::kGradient;
  header.compressor = RecordCompressor::kTile;
  header.features = 64;
  header.time = 1234567890123456789;
  std::string out = "before";
  append_record(out, header, bytes_of(kPayload));
  ASSERT_EQ(out.size(), 6 + record_bytes(kPayload.size()));

  const auto record = read_record(std::string_view(out).substr(6));
  ASSERT_TRUE(record.ok()) << base::to_string(record.error());
  RecordHeader expected = header;
  expected.payload_bytes = kPayload.size();
  expected.payload_crc = crc32c(bytes_of(kPayload));
  expected.header_crc = record.value().header.header_crc;
  EXPECT_EQ(record.value().header, expected);
  EXPECT_EQ(std::memcmp(record.value().payload.data(), kPayload.data(), kPayload.size()), 0);
  EXPECT_EQ(record.value().whole.size(), kSmallRecordBytes);
}

TEST(Record, EveryFlippedByteOfHeaderAndPayloadIsFound) {
  const std::string good = small_record();
  for (std::size_t i = 0; i < kRecordHeaderBytes + kPayload.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x40);
    EXPECT_FALSE(read_record(bad).ok()) << "byte " << i;
  }
}

TEST(Record, EveryTruncationIsFound) {
  const std::string good = small_record();
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(read_record(std::string_view(good).substr(0, size)).ok()) << "size " << size;
}

TEST(Record, PayloadCrcIsLeftAloneWhenOnlyTheHeaderIsAsked) {
  std::string bad = small_record();
  bad[kRecordHeaderBytes] = 'x';
  EXPECT_TRUE(read_record(bad, RecordCheck::kHeader).ok());
  EXPECT_EQ(read_record(bad).error().message, "the payload's CRC does not match");
}

// Rewrites one header word and makes the header's CRC right again.
template <typename Word>
std::string forge(std::size_t offset, Word value) {
  std::string record = small_record();
  std::memcpy(record.data() + offset, &value, sizeof(value));
  const std::uint32_t crc = crc32c(bytes_of(std::string_view(record).substr(0, 124)));
  std::memcpy(record.data() + 124, &crc, sizeof(crc));
  return record;
}

TEST(Record, ForgedLengthsAreRefused) {
  EXPECT_FALSE(read_record(forge<std::uint64_t>(88, ~0ULL)).ok());
  EXPECT_FALSE(read_record(forge<std::uint64_t>(88, 4)).ok());
  EXPECT_FALSE(read_record(forge<std::uint16_t>(6, 64)).ok());
  EXPECT_FALSE(read_record(forge<std::uint16_t>(6, 65528)).ok());
  EXPECT_FALSE(read_record(forge<std::uint8_t>(66, 5)).ok());
  EXPECT_FALSE(read_record(forge<std::uint32_t>(68, 0xFFFFFFFFU)).ok());
}

// Whether a u8 record of this shape and this many payload bytes is taken.
bool takes_u8(std::uint8_t ndim, const std::array<std::uint32_t, 4>& shape, std::size_t bytes) {
  RecordHeader header = small_header();
  header.ndim = ndim;
  header.shape = shape;
  std::string out;
  append_record(out, header, bytes_of(std::string(bytes, 'c')));
  return read_record(out).ok();
}

TEST(Record, AU8PayloadHasOffsetAndScaleForEachLine) {
  EXPECT_TRUE(takes_u8(2, {2, 3, 1, 1}, 2 * 8 + 6));
  EXPECT_FALSE(takes_u8(2, {2, 3, 1, 1}, 6));
  EXPECT_FALSE(takes_u8(2, {2, 3, 1, 1}, 8 + 6));
  EXPECT_TRUE(takes_u8(4, {2, 3, 1, 5}, 6 * 8 + 30));
  EXPECT_TRUE(takes_u8(0, {1, 1, 1, 1}, 8 + 1));
  EXPECT_FALSE(takes_u8(0, {1, 1, 1, 1}, 1));
  EXPECT_TRUE(takes_u8(2, {0, 4, 1, 1}, 0));
  EXPECT_TRUE(takes_u8(2, {4, 0, 1, 1}, 0));
}

TEST(Record, OtherVersionsAreToldApartFromDamage) {
  EXPECT_EQ(read_record(forge<std::uint32_t>(0, 0)).error().code, "unsupported_version");
  EXPECT_EQ(read_record(forge<std::uint16_t>(4, 2)).error().code, "unsupported_version");
  EXPECT_EQ(read_record("short").error().code, "invalid_record");
}

TEST(Record, AnUnknownDtypeIsKeptAsItIs) {
  const auto record = read_record(forge<std::uint8_t>(64, 99));
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(static_cast<int>(record.value().header.dtype), 99);
  EXPECT_EQ(dtype_bytes(record.value().header.dtype), 0U);
}

TEST(Record, ALongerHeaderIsSkipped) {
  const std::string record = small_record();
  std::string longer = record.substr(0, 128) + std::string(8, 'n') + record.substr(128);
  const std::uint16_t header_bytes = 136;
  std::memcpy(longer.data() + 6, &header_bytes, 2);
  const std::uint32_t crc = crc32c(bytes_of(std::string_view(longer).substr(0, 124)));
  std::memcpy(longer.data() + 124, &crc, sizeof(crc));
  const auto view = read_record(longer);
  ASSERT_TRUE(view.ok()) << base::to_string(view.error());
  EXPECT_EQ(std::memcmp(view.value().payload.data(), kPayload.data(), kPayload.size()), 0);
}

TEST(RecordReader, WalksOverAMessageAndStopsAtTheFirstError) {
  std::string message = small_record() + small_record();
  RecordReader reader(message);
  EXPECT_TRUE(reader.next().has_value());
  EXPECT_TRUE(reader.next().has_value());
  EXPECT_FALSE(reader.next().has_value());
  EXPECT_TRUE(reader.status().ok());

  message += "rest";
  RecordReader broken(message);
  EXPECT_TRUE(broken.next().has_value());
  EXPECT_TRUE(broken.next().has_value());
  EXPECT_FALSE(broken.next().has_value());
  EXPECT_FALSE(broken.status().ok());
}

TEST(RecordKey, HasExactlyTheFieldsOfTheContract) {
  const RecordHeader header = small_header();
  std::unordered_set<RecordKey> keys = {key_of(header)};
  const auto insert = [&](auto change) {
    RecordHeader other = header;
    change(other);
    keys.insert(key_of(other));
  };
  insert([](RecordHeader& h) { h.step = 99; });
  insert([](RecordHeader& h) { h.micro_batch = 99; });
  insert([](RecordHeader& h) { h.sequence = 99; });
  EXPECT_EQ(keys.size(), 1U);
  insert([](RecordHeader& h) { h.run = 99; });
  insert([](RecordHeader& h) { h.entry = 99; });
  insert([](RecordHeader& h) { h.layer = 99; });
  insert([](RecordHeader& h) { h.phase = RecordPhase::kEval; });
  insert([](RecordHeader& h) { h.prompt_set = 99; });
  insert([](RecordHeader& h) { h.tensor_rank = 99; });
  insert([](RecordHeader& h) { h.pipeline_rank = 99; });
  insert([](RecordHeader& h) { h.data_rank = 99; });
  insert([](RecordHeader& h) { h.direction = RecordDirection::kGradient; });
  EXPECT_EQ(keys.size(), 10U);
}

TEST(Record, ACopyWithAnotherPointIsAWholeRecord) {
  std::string record;
  const std::vector<std::byte> payload(12, std::byte{7});
  append_record(record,
                {.point = 32, .layer = 3, .dtype = Dtype{200}, .ndim = 0, .shape = {1, 1, 1, 1}},
                payload);
  const std::string copy = with_point(record, 17);
  const auto read = read_record(copy);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read.value().header.point, 17);
  EXPECT_EQ(with_point(copy, 32), record);
}

// The golden file is made by tests/golden/make_golden.py, which knows docs/protocol.md only.
TEST(RecordGolden, Version1IsReadableAndIsWrittenByteForByte) {
  const std::string golden = read_text("record_v1.bin");
  const nlohmann::json described = nlohmann::json::parse(read_text("record_v1.json"));
  RecordReader reader(golden);
  std::string written;
  for (const nlohmann::json& expected : described.at("records")) {
    const auto record = reader.next();
    ASSERT_TRUE(record.has_value());
    const RecordHeader& h = record->header;
    const nlohmann::json got = {{"run", h.run},
                                {"sequence", h.sequence},
                                {"step", h.step},
                                {"plan", h.plan},
                                {"entry", h.entry},
                                {"micro_batch", h.micro_batch},
                                {"prompt_set", h.prompt_set},
                                {"first_row", h.first_row},
                                {"point", h.point},
                                {"layer", h.layer},
                                {"tensor_rank", h.tensor_rank},
                                {"pipeline_rank", h.pipeline_rank},
                                {"data_rank", h.data_rank},
                                {"phase", h.phase},
                                {"direction", h.direction},
                                {"dtype", h.dtype},
                                {"compressor", h.compressor},
                                {"ndim", h.ndim},
                                {"shape", h.shape},
                                {"features", h.features},
                                {"payload_bytes", h.payload_bytes},
                                {"time", h.time},
                                {"payload_crc", h.payload_crc},
                                {"header_crc", h.header_crc}};
    EXPECT_EQ(got, expected.at("header"));
    append_record(written, h, record->payload);
  }
  EXPECT_FALSE(reader.next().has_value());
  EXPECT_TRUE(reader.status().ok());
  EXPECT_EQ(written, golden);
}

}  // namespace
}  // namespace tt::protocol

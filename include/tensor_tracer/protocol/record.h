#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tensor_tracer/base/result.h"

/// The binary half of docs/protocol.md: a record is a header of 128 bytes, a payload, and zero
/// bytes up to the next multiple of 8. Any thread may call the functions here.
namespace tt::protocol {

inline constexpr std::uint32_t kRecordMagic = 0x31465454;  // "TTF1"
inline constexpr std::uint16_t kRecordVersion = 1;
inline constexpr std::size_t kRecordHeaderBytes = 128;
inline constexpr std::size_t kRecordAlignment = 8;
inline constexpr std::size_t kRecordMaxDims = 4;

// A value read from the wire may be outside the names below; the reader keeps the value unchanged.
enum class Dtype : std::uint8_t {
  kF64 = 1,
  kF32 = 2,
  kF16 = 3,
  kBf16 = 4,
  kI32 = 5,
  kI64 = 6,
  kU8 = 7  // with an offset and a scale for each line
};
enum class RecordPhase : std::uint8_t { kTrain = 0, kEval = 1 };
enum class RecordDirection : std::uint8_t { kValue = 0, kGradient = 1 };
enum class RecordCompressor : std::uint8_t {
  kNone = 0,
  kTile = 1,
  kEmpty = 2,
  kStats = 3,
  kProjection = 4,
  kTopK = 5,
  kTopTokens = 6
};

/// Bytes of one element; 0 for a dtype that this version does not know.
std::size_t dtype_bytes(Dtype dtype);

/// u8: every line (the last dim) has two f32, offset and scale. They stand before all codes, line
/// by line. Code c up to 252 is the number offset + scale * c. It differs from the sent number by
/// at most scale / 2.
inline constexpr std::size_t kU8LineBytes = 8;
inline constexpr std::uint8_t kU8Largest = 252;
inline constexpr std::uint8_t kU8Nan = 253;
inline constexpr std::uint8_t kU8PositiveInfinity = 254;
inline constexpr std::uint8_t kU8NegativeInfinity = 255;

/// The header's fields. Names and meanings are those of docs/protocol.md. A caller that writes a
/// record does not set version, header_bytes, payload_bytes, payload_crc and header_crc:
/// append_record fills them.
struct RecordHeader {
  std::uint16_t version = kRecordVersion;
  std::uint16_t header_bytes = kRecordHeaderBytes;
  std::uint64_t run = 0;
  std::uint64_t sequence = 0;
  std::uint64_t step = 0;
  std::uint32_t plan = 0;
  std::uint32_t entry = 0;
  std::uint32_t micro_batch = 0;
  std::uint32_t prompt_set = 0;
  std::uint32_t first_row = 0;
  std::uint16_t point = 0;
  std::uint16_t layer = 0;
  std::uint16_t tensor_rank = 0;
  std::uint16_t pipeline_rank = 0;
  std::uint16_t data_rank = 0;
  RecordPhase phase = RecordPhase::kTrain;
  RecordDirection direction = RecordDirection::kValue;
  Dtype dtype = Dtype::kF32;
  RecordCompressor compressor = RecordCompressor::kNone;
  std::uint8_t ndim = 0;
  std::array<std::uint32_t, kRecordMaxDims> shape = {1, 1, 1, 1};
  std::uint32_t features = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t time = 0;
  std::uint32_t payload_crc = 0;
  std::uint32_t header_crc = 0;

  bool operator==(const RecordHeader&) const = default;
};

/// Identifies the records that replace one another: "The key of a record" in docs/protocol.md.
struct RecordKey {
  std::uint64_t run = 0;
  std::uint32_t entry = 0;
  std::uint32_t prompt_set = 0;
  std::uint16_t layer = 0;
  std::uint16_t tensor_rank = 0;
  std::uint16_t pipeline_rank = 0;
  std::uint16_t data_rank = 0;
  RecordPhase phase = RecordPhase::kTrain;
  RecordDirection direction = RecordDirection::kValue;

  auto operator<=>(const RecordKey&) const = default;
};

RecordKey key_of(const RecordHeader& header);

/// Appends one whole record to `out`. Fills version, header_bytes, payload_bytes, both CRCs and
/// the padding; all other fields are written as given.
/// REQUIRES: header.ndim <= 4.
void append_record(std::string& out, RecordHeader header, std::span<const std::byte> payload);

/// A copy of a whole record, with another point's number.
/// REQUIRES: read_record has read the record.
std::string with_point(std::string_view record, std::uint16_t point);

/// The number of bytes that append_record adds for a payload of this size.
std::size_t record_bytes(std::size_t payload_bytes);

/// One record inside a binary message. Owner: the message; the views are valid as long as the
/// message.
struct RecordView {
  RecordHeader header;
  std::span<const std::byte> payload;
  std::string_view whole;  // header, payload and padding
};

/// The parts of a record that read_record checks.
enum class RecordCheck {
  kHeader,   // the header, its CRC and all lengths
  kPayload,  // the payload's CRC too
};

/// The record at the start of `bytes`. More bytes may follow the record. The error's code is
/// "unsupported_version" for an unknown magic or version, else "invalid_record".
base::Result<RecordView> read_record(std::string_view bytes,
                                     RecordCheck check = RecordCheck::kPayload);

/// Reads the records of one binary message, one after another:
///     RecordReader reader(message);
///     while (auto record = reader.next()) { … }
///     if (!reader.status().ok()) { … }
/// Owner: the caller keeps the message alive longer than the reader.
class RecordReader {
 public:
  explicit RecordReader(std::string_view message, RecordCheck check = RecordCheck::kPayload)
      : rest_(message), check_(check) {}

  /// Nothing at the end of the message and after the first error.
  std::optional<RecordView> next();
  const base::Status& status() const { return status_; }

 private:
  std::string_view rest_;
  RecordCheck check_;
  base::Status status_;
};

}  // namespace tt::protocol

template <>
struct std::hash<tt::protocol::RecordKey> {
  std::size_t operator()(const tt::protocol::RecordKey& key) const noexcept;
};

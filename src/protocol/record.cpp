#include "tensor_tracer/protocol/record.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "tensor_tracer/base/check.h"
#include "tensor_tracer/protocol/crc32c.h"

// record := header payload zero*        the total length is a multiple of 8
// header := 128 bytes, little-endian; visit_fields below gives the layout; unnamed bytes are 0
namespace tt::protocol {
namespace {

static_assert(std::endian::native == std::endian::little, "the codec copies little-endian words");

constexpr std::size_t kPointOffset = 52;
constexpr std::size_t kHeaderCrcOffset = 124;

// The only table of offsets. Encoder and decoder both use it.
template <typename Header, typename Visit>
void visit_fields(Header& header, Visit&& visit) {
  visit(4, header.version);
  visit(6, header.header_bytes);
  visit(8, header.run);
  visit(16, header.sequence);
  visit(24, header.step);
  visit(32, header.plan);
  visit(36, header.entry);
  visit(40, header.micro_batch);
  visit(44, header.prompt_set);
  visit(48, header.first_row);
  visit(52, header.point);
  visit(54, header.layer);
  visit(56, header.tensor_rank);
  visit(58, header.pipeline_rank);
  visit(60, header.data_rank);
  visit(62, header.phase);
  visit(63, header.direction);
  visit(64, header.dtype);
  visit(65, header.compressor);
  visit(66, header.ndim);
  visit(68, header.shape);
  visit(84, header.features);
  visit(88, header.payload_bytes);
  visit(96, header.time);
  visit(120, header.payload_crc);
  visit(124, header.header_crc);
}

std::uint32_t crc_of_text(std::string_view bytes) {
  return crc32c(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

base::Error invalid(std::string message) {
  return {.code = "invalid_record", .message = std::move(message)};
}

base::Error unsupported(std::string message) {
  return {.code = "unsupported_version",
          .message = std::move(message),
          .remedy = "use the same version of Tensor Tracer on both sides"};
}

std::uint64_t padded(std::uint64_t bytes) {
  return (bytes + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment;
}

RecordHeader decode(std::string_view bytes) {
  RecordHeader header;
  visit_fields(header, [&](std::size_t offset, auto& field) {
    std::memcpy(&field, bytes.data() + offset, sizeof(field));
  });
  return header;
}

// Nothing if the number does not fit into 64 bits.
std::optional<std::uint64_t> bytes_of_shape(const RecordHeader& header) {
  constexpr std::uint64_t kMaxUint64 = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t bytes = dtype_bytes(header.dtype);
  for (const std::uint32_t extent : header.shape) {
    if (extent != 0 && bytes > kMaxUint64 / extent) return std::nullopt;
    bytes *= extent;
  }
  if (header.dtype == Dtype::kU8 && bytes > 0) {
    const std::uint32_t columns = header.ndim == 0 ? 1 : header.shape[header.ndim - 1];
    const std::uint64_t lines = bytes / columns;
    if (lines > (kMaxUint64 - bytes) / kU8LineBytes) return std::nullopt;
    bytes += lines * kU8LineBytes;
  }
  return bytes;
}

base::Status check_lengths(const RecordHeader& header, std::size_t available) {
  if (header.ndim > kRecordMaxDims)
    return invalid("ndim is " + std::to_string(header.ndim) + ", more than 4");
  const std::uint64_t room = available - header.header_bytes;
  if (header.payload_bytes > room || padded(header.payload_bytes) > room) {
    return invalid("payload_bytes is " + std::to_string(header.payload_bytes) + ", but only " +
                   std::to_string(room) + " bytes follow the header");
  }
  const auto expected = bytes_of_shape(header);
  if (!expected) return invalid("the shape has more elements than fit 64 bits");
  if (dtype_bytes(header.dtype) != 0 && *expected != header.payload_bytes) {
    return invalid("the shape needs " + std::to_string(*expected) + " bytes, payload_bytes is " +
                   std::to_string(header.payload_bytes));
  }
  return {};
}

base::Result<RecordHeader> read_header(std::string_view bytes) {
  if (bytes.size() < kRecordHeaderBytes)
    return invalid("a header has 128 bytes, only " + std::to_string(bytes.size()) + " are there");
  const std::string_view head = bytes.substr(0, kRecordHeaderBytes);
  std::uint32_t magic = 0;
  std::memcpy(&magic, head.data(), sizeof(magic));
  const RecordHeader header = decode(head);
  if (magic != kRecordMagic)
    return unsupported("not a record: the magic is " + std::to_string(magic));
  if (header.version != kRecordVersion)
    return unsupported("record version " + std::to_string(header.version) + ", known is 1");
  if (header.header_bytes < kRecordHeaderBytes || header.header_bytes % kRecordAlignment != 0 ||
      header.header_bytes > bytes.size())
    return invalid("header_bytes is " + std::to_string(header.header_bytes));
  if (header.header_crc != crc_of_text(head.substr(0, kHeaderCrcOffset)))
    return invalid("the header's CRC does not match");
  return header;
}

}  // namespace

std::size_t dtype_bytes(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF64:
    case Dtype::kI64:
      return 8;
    case Dtype::kF32:
    case Dtype::kI32:
      return 4;
    case Dtype::kF16:
    case Dtype::kBf16:
      return 2;
    case Dtype::kU8:
      return 1;
  }
  return 0;
}

RecordKey key_of(const RecordHeader& header) {
  return {.run = header.run,
          .entry = header.entry,
          .prompt_set = header.prompt_set,
          .layer = header.layer,
          .tensor_rank = header.tensor_rank,
          .pipeline_rank = header.pipeline_rank,
          .data_rank = header.data_rank,
          .phase = header.phase,
          .direction = header.direction};
}

std::string with_point(std::string_view record, std::uint16_t point) {
  std::string copy(record);
  std::memcpy(copy.data() + kPointOffset, &point, sizeof(point));
  const std::uint32_t crc = crc_of_text({copy.data(), kHeaderCrcOffset});
  std::memcpy(copy.data() + kHeaderCrcOffset, &crc, sizeof(crc));
  return copy;
}

std::size_t record_bytes(std::size_t payload_bytes) {
  return kRecordHeaderBytes + padded(payload_bytes);
}

void append_record(std::string& out, RecordHeader header, std::span<const std::byte> payload) {
  TT_CHECK(header.ndim <= kRecordMaxDims, "ndim of a record");
  header.version = kRecordVersion;
  header.header_bytes = kRecordHeaderBytes;
  header.payload_bytes = payload.size();
  header.payload_crc = crc32c(payload);

  std::array<char, kRecordHeaderBytes> bytes{};
  std::memcpy(bytes.data(), &kRecordMagic, sizeof(kRecordMagic));
  visit_fields(header, [&](std::size_t offset, const auto& field) {
    std::memcpy(bytes.data() + offset, &field, sizeof(field));
  });
  const std::uint32_t crc = crc_of_text({bytes.data(), kHeaderCrcOffset});
  std::memcpy(bytes.data() + kHeaderCrcOffset, &crc, sizeof(crc));

  out.append(bytes.data(), bytes.size());
  out.append(reinterpret_cast<const char*>(payload.data()), payload.size());
  out.append(padded(payload.size()) - payload.size(), '\0');
}

base::Result<RecordView> read_record(std::string_view bytes, RecordCheck check) {
  const base::Result<RecordHeader> read = read_header(bytes);
  if (!read) return read.error();
  const RecordHeader& header = read.value();
  if (base::Status status = check_lengths(header, bytes.size()); !status.ok())
    return status.error();
  const std::string_view payload = bytes.substr(header.header_bytes, header.payload_bytes);
  if (check == RecordCheck::kPayload && header.payload_crc != crc_of_text(payload))
    return invalid("the payload's CRC does not match");
  return RecordView{.header = header,
                    .payload = std::as_bytes(std::span(payload.data(), payload.size())),
                    .whole = bytes.substr(0, header.header_bytes + padded(header.payload_bytes))};
}

std::optional<RecordView> RecordReader::next() {
  if (rest_.empty() || !status_.ok()) return std::nullopt;
  base::Result<RecordView> record = read_record(rest_, check_);
  if (!record) {
    status_ = record.error();
    return std::nullopt;
  }
  rest_.remove_prefix(record.value().whole.size());
  return record.value();
}

}  // namespace tt::protocol

std::size_t std::hash<tt::protocol::RecordKey>::operator()(
    const tt::protocol::RecordKey& key) const noexcept {
  std::size_t seed = 0;
  const auto mix = [&seed](std::uint64_t value) {
    seed ^= value + 0x9E3779B97F4A7C15ULL + (seed << 6U) + (seed >> 2U);
  };
  mix(key.run);
  mix((std::uint64_t{key.entry} << 32U) | key.prompt_set);
  mix((std::uint64_t{key.layer} << 48U) | (std::uint64_t{key.tensor_rank} << 32U) |
      (std::uint64_t{key.pipeline_rank} << 16U) | key.data_rank);
  mix((static_cast<std::uint64_t>(key.phase) << 8U) | static_cast<std::uint64_t>(key.direction));
  return seed;
}

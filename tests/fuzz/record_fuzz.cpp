// A binary message → records. The first byte says what is mended before it is read, so that inputs
// get past the checksums: bit 0 the header's CRC, bit 1 the payload's.
#include <cstring>
#include <limits>
#include <string>

#include "tensor_tracer/protocol/crc32c.h"
#include "tensor_tracer/protocol/record.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace tt::protocol;
using tt::fuzz::require;

constexpr std::size_t kPayloadBytesAt = 88;
constexpr std::size_t kPayloadCrcAt = 120;
constexpr std::size_t kHeaderCrcAt = 124;

std::uint32_t crc_of(std::string_view bytes) {
  return crc32c(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

void put(std::string& message, std::size_t at, std::uint32_t crc) {
  std::memcpy(message.data() + at, &crc, sizeof(crc));
}

void mend_record(std::string& message, std::size_t at, bool payload) {
  std::uint64_t size = 0;
  std::memcpy(&size, message.data() + at + kPayloadBytesAt, sizeof(size));
  const std::string_view rest = std::string_view(message).substr(at + kRecordHeaderBytes);
  if (payload && size <= rest.size())
    put(message, at + kPayloadCrcAt, crc_of(rest.substr(0, size)));
  put(message, at + kHeaderCrcAt, crc_of(std::string_view(message).substr(at, kHeaderCrcAt)));
}

void mend(std::string& message, bool payload) {
  for (std::size_t at = 0; at + kRecordHeaderBytes <= message.size();) {
    mend_record(message, at, payload);
    const auto record = read_record(std::string_view(message).substr(at), RecordCheck::kHeader);
    if (!record) return;
    at += record.value().whole.size();
  }
}

// In 128 bits nothing overflows: four extents of 32 bits are cut off at 2^96 before the last one.
__extension__ using Wide = unsigned __int128;

Wide bytes_of_shape(const RecordHeader& header) {
  constexpr Wide kHuge = Wide{1} << 90U;
  Wide elements = 1;
  bool empty = false;
  for (const std::uint32_t extent : header.shape) {
    empty = empty || extent == 0;
    elements = elements > kHuge ? elements : elements * extent;
  }
  if (empty) return 0;
  if (header.dtype == Dtype::kU8) {
    const std::uint32_t columns = header.ndim == 0 ? 1 : header.shape[header.ndim - 1U];
    return elements + elements / columns * kU8LineBytes;
  }
  return elements * dtype_bytes(header.dtype);
}

void check_record(const RecordView& record, std::string_view message, std::size_t at) {
  const RecordHeader& header = record.header;
  const auto* const payload = reinterpret_cast<const char*>(record.payload.data());
  require(record.whole.data() == message.data() + at, "records follow one another");
  require(record.whole.size() <= message.size() - at, "a record lies inside its message");
  require(record.whole.size() % kRecordAlignment == 0, "alignment");
  require(payload == record.whole.data() + header.header_bytes, "the payload follows the header");
  require(record.payload.size() == header.payload_bytes, "payload_bytes");
  require(header.header_bytes + record.payload.size() <= record.whole.size(),
          "the payload lies inside its record");
  require(header.ndim <= kRecordMaxDims, "ndim");
  require(dtype_bytes(header.dtype) == 0 || bytes_of_shape(header) == header.payload_bytes,
          "the shape fits the payload");
}

void check_round_trip(const RecordView& record) {
  std::string again;
  append_record(again, record.header, record.payload);
  const auto read = read_record(again);
  require(read.ok() && read.value().payload.size() == record.payload.size(), "written, read");
  require(key_of(read.value().header) == key_of(record.header), "the key is kept");
  static_cast<void>(std::hash<RecordKey>()(key_of(record.header)));
}

void read_all(std::string_view message, RecordCheck check) {
  RecordReader reader(message, check);
  std::size_t at = 0;
  while (const auto record = reader.next()) {
    check_record(*record, message, at);
    check_round_trip(*record);
    at += record->whole.size();
  }
  require(reader.status().ok() == (at == message.size()), "all is read, or an error says why not");
  require(!reader.next(), "nothing comes after the end");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string message(tt::fuzz::as_text(data + 1, size - 1));
  if ((data[0] & 1U) != 0) mend(message, (data[0] & 2U) != 0);
  message.shrink_to_fit();
  read_all(message, RecordCheck::kHeader);
  read_all(message, RecordCheck::kPayload);
  return 0;
}

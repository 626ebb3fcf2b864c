#include "src/record/export/event_file.h"

#include <cstring>
#include <numeric>
#include <span>

#include "tensor_tracer/protocol/crc32c.h"

// file  := event*                      TensorFlow's tensorflow/core/lib/io/record_writer.h:
// event := length (u64), masked CRC-32C of these 8 bytes, Event, masked CRC-32C of it
//
// Event, Summary, HistogramProto as in tensorflow/core/util/event.proto and
// tensorflow/core/framework/summary.proto, in the wire format of Protocol Buffers: a field is its
// number * 8 + kind, then 8 bytes (kind 1), a varint (0), length and bytes (2), or 4 bytes (5).
namespace tt::record {
namespace {

enum class Kind : std::uint8_t { kVarint = 0, kWord = 1, kBytes = 2, kHalfWord = 5 };

template <typename T>
std::string_view raw(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80U; value >>= 7U) {
    out += static_cast<char>(value | 0x80U);
  }
  out += static_cast<char>(value);
}

void put_field(std::string& out, unsigned number, Kind kind) {
  put_varint(out, number << 3U | static_cast<unsigned>(kind));
}

void put_double(std::string& out, unsigned number, double value) {
  put_field(out, number, Kind::kWord);
  out += raw(value);
}

void put_bytes(std::string& out, unsigned number, std::string_view bytes) {
  put_field(out, number, Kind::kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

std::uint32_t masked_crc(std::string_view bytes) {
  const std::uint32_t crc = protocol::crc32c(std::as_bytes(std::span(bytes)));
  return (crc >> 15U | crc << 17U) + 0xA282EAD8U;
}

std::string event_at(std::uint64_t time_ns) {
  constexpr double kPerSecond = 1e9;
  std::string event;
  put_double(event, 1, static_cast<double>(time_ns) / kPerSecond);  // Event.wall_time
  return event;
}

}  // namespace

void Summary::add_scalar(std::string_view tag, float number) {
  std::string value;
  put_bytes(value, 1, tag);              // Summary.Value.tag
  put_field(value, 2, Kind::kHalfWord);  // Summary.Value.simple_value
  value += raw(number);
  put_bytes(bytes_, 1, value);  // Summary.value
}

void Summary::add_histogram(std::string_view tag, double low, double high, double sum,
                            double squares, std::span<const double> counts) {
  std::string limits;
  std::string buckets;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double part = static_cast<double>(i + 1) / static_cast<double>(counts.size());
    limits += raw(low + (high - low) * part);
    buckets += raw(counts[i]);
  }
  std::string histogram;
  put_double(histogram, 1, low);   // HistogramProto.min
  put_double(histogram, 2, high);  // .max
  put_double(histogram, 3, std::accumulate(counts.begin(), counts.end(), 0.0));  // .num
  put_double(histogram, 4, sum);
  put_double(histogram, 5, squares);  // .sum_squares
  put_bytes(histogram, 6, limits);    // .bucket_limit
  put_bytes(histogram, 7, buckets);   // .bucket
  std::string value;
  put_bytes(value, 1, tag);
  put_bytes(value, 5, histogram);  // Summary.Value.histo
  put_bytes(bytes_, 1, value);
}

EventFile::EventFile(const std::string& path, std::uint64_t start_ns) : file_(path) {
  std::string event = event_at(start_ns);
  put_bytes(event, 3, "brain.Event:2");  // Event.file_version
  write_event(event);
}

void EventFile::add(std::uint64_t step, std::uint64_t time_ns, const Summary& summary) {
  std::string event = event_at(time_ns);
  put_field(event, 2, Kind::kVarint);  // Event.step
  put_varint(event, step);
  put_bytes(event, 5, summary.bytes());  // Event.summary
  write_event(event);
}

void EventFile::write_event(std::string_view event) {
  const std::uint64_t size = event.size();
  const std::uint32_t size_crc = masked_crc(raw(size));
  const std::uint32_t event_crc = masked_crc(event);
  file_.write(raw(size));
  file_.write(raw(size_crc));
  file_.write(event);
  file_.write(raw(event_crc));
}

}  // namespace tt::record
